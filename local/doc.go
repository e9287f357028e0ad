// Package local is the part of a queue that lives in this process's memory: the bounded
// front that takes jobs in, and the tickets that tell their owners what becomes of them.
package local
