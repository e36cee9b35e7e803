//go:build !linux || android || !(amd64 || arm64) || nocuda

package cuda

// built says that this program can load a driver.
const built = false

func dlopen(string) (uintptr, error) { return 0, ErrNoDriver }

func dlsym(uintptr, string) uintptr { return 0 }

// callC is never called, as there is no driver.
func callC(uintptr, ...uintptr) uintptr { return uintptr(NotSupported) }
