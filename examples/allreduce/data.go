package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
)

const (
	pixels  = 64 // of an image
	classes = 10
)

// digitsFile is the data set; see DATA.md.
//
//go:embed digits.txt.gz
var digitsFile []byte

// An image is one handwritten digit.
type image struct {
	pixels [pixels]float32 // 0 to 1
	label  int
}

// loadDigits decodes the embedded data set.
func loadDigits() ([]image, error) {
	zr, err := gzip.NewReader(bytes.NewReader(digitsFile))
	if err != nil {
		return nil, err
	}
	return readDigits(zr)
}

// readDigits reads images, one a line.
func readDigits(r io.Reader) ([]image, error) {
	const levels = "0123456789abcdefg"
	var images []image
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if len(line) != pixels+1 {
			return nil, fmt.Errorf("line %d: %d characters instead of %d", n, len(line), pixels+1)
		}
		var im image
		for i := range pixels {
			v := strings.IndexByte(levels, line[i])
			if v < 0 {
				return nil, fmt.Errorf("line %d: bad pixel %q", n, line[i])
			}
			im.pixels[i] = float32(v) / float32(len(levels)-1)
		}
		im.label = int(line[pixels]) - '0'
		if im.label < 0 || im.label >= classes {
			return nil, fmt.Errorf("line %d: bad label %q", n, line[pixels])
		}
		images = append(images, im)
	}
	return images, lines.Err()
}

// split divides the images at random into four fifths to train and one fifth
// to test with, the same ones for the same seed.
func split(images []image, seed uint64) (train, test []image) {
	order := rand.New(rand.NewPCG(seed, 0)).Perm(len(images))
	for i, k := range order {
		if i < len(images)*4/5 {
			train = append(train, images[k])
		} else {
			test = append(test, images[k])
		}
	}
	return train, test
}

// share returns what rank has of all images: every size-th one.
func share(all []image, rank, size int) []image {
	var own []image
	for i := rank; i < len(all); i += size {
		own = append(own, all[i])
	}
	return own
}
