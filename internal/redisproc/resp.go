package redisproc

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
)

// maxFrame bounds one length field, against nonsense.
const maxFrame = 1 << 30

// appendFrame reads one value of the Redis protocol, nested ones included, and
// appends its bytes as they are.
func appendFrame(dst []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return dst, err
	}
	dst = append(dst, line...)
	values := 0
	switch line[0] {
	case '$', '=', '!':
		n, err := length(line)
		if err != nil || n < 0 {
			return dst, err
		}
		start := len(dst)
		dst = append(dst, make([]byte, n+2)...)
		for got := 0; got < n+2; {
			k, err := r.Read(dst[start+got:])
			if err != nil {
				return dst, err
			}
			got += k
		}
		return dst, nil
	case '*', '~', '>':
		if values, err = length(line); err != nil {
			return dst, err
		}
	case '%':
		if values, err = length(line); err != nil {
			return dst, err
		}
		values *= 2
	case '|': // attributes come before the value that they belong to
		if values, err = length(line); err != nil {
			return dst, err
		}
		values = values*2 + 1
	}
	for ; values > 0; values-- {
		if dst, err = appendFrame(dst, r); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func length(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil || n > maxFrame {
		return 0, fmt.Errorf("redisproc: not a length: %q", line)
	}
	return n, nil
}

// words takes a request, an array of strings, apart.
func words(frame []byte) []string {
	var args []string
	r := bufio.NewReader(bytes.NewReader(frame))
	line, err := r.ReadBytes('\n')
	if err != nil || line[0] != '*' {
		return []string{string(bytes.TrimSpace(frame))}
	}
	n, _ := length(line)
	for range n {
		value, err := appendFrame(nil, r)
		if err != nil {
			return args
		}
		if i := bytes.IndexByte(value, '\n'); value[0] == '$' && len(value) >= i+3 {
			value = value[i+1 : len(value)-2]
		}
		args = append(args, string(value))
	}
	return args
}
