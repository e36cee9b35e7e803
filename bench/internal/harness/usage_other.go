//go:build !unix

package harness

import "time"

// ProcessTime is not known.
func ProcessTime() time.Duration { return 0 }
