package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math/cmplx"
	"os"
	"path/filepath"
)

// tile is the work of one job: a picture of a part of the Mandelbrot set.
type tile struct {
	X    float64 `json:"x"` // of the middle
	Y    float64 `json:"y"`
	Size float64 `json:"size"` // of an edge
	Edge int     `json:"edge"` // in pixels
}

// Bounds of the work in one tile.
const (
	maxEdge  = 512
	maxSteps = 600
)

func (t tile) validate() error {
	if !(t.Size > 0 && t.Size <= 4 && cmplx.Abs(complex(t.X, t.Y)) <= 4) { // NaN is refused too
		return errors.New("size must be above 0 and at most 4, and x, y not far from the middle")
	}
	if t.Edge < 1 || t.Edge > maxEdge {
		return fmt.Errorf("edge must be between 1 and %d", maxEdge)
	}
	return nil
}

// render draws the tile; it looks at ctx after each line.
func (t tile) render(ctx context.Context) ([]byte, error) {
	picture := image.NewGray(image.Rect(0, 0, t.Edge, t.Edge))
	for py := range t.Edge {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		for px := range t.Edge {
			c := complex(t.X+t.Size*(float64(px)/float64(t.Edge)-0.5), t.Y+t.Size*(float64(py)/float64(t.Edge)-0.5))
			picture.Pix[picture.PixOffset(px, py)] = shade(c)
		}
	}
	var out bytes.Buffer
	err := png.Encode(&out, picture)
	return out.Bytes(), err
}

func shade(c complex128) uint8 {
	z := c
	for step := range maxSteps {
		if real(z)*real(z)+imag(z)*imag(z) > 4 {
			return uint8(255 - step%256)
		}
		z = z*z + c
	}
	return 0
}

// gallery is the folder with the pictures, each named after its job.
type gallery struct{ dir string }

// put stores a picture whole or not at all. Repeated, it changes nothing.
func (g gallery) put(id string, picture []byte) error {
	file, err := os.CreateTemp(g.dir, "half-*")
	if err != nil {
		return err
	}
	_, err = file.Write(picture)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(g.dir, id+".png"))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// has tells whether there is a picture of that job, and that it is one.
func (g gallery) has(id string) bool {
	file, err := os.Open(filepath.Join(g.dir, id+".png"))
	if err != nil {
		return false
	}
	defer file.Close()
	_, err = png.DecodeConfig(file)
	return err == nil
}

// count counts the pictures.
func (g gallery) count() (int, error) {
	found, err := filepath.Glob(filepath.Join(g.dir, "*.png"))
	return len(found), err
}
