//go:build !unix

package harness

import "time"

// processTime is not known.
func processTime() time.Duration { return 0 }
