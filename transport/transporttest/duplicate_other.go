//go:build !unix

package transporttest

import (
	"errors"
	"os"
)

func duplicate(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
