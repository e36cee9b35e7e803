package nccl

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"github.com/weft-go/weft/internal/dl"
)

// libraryEnv names NCCL's library, where the loader doesn't find it by itself.
const libraryEnv = "WEFT_NCCL"

var (
	// ErrNoLibrary says that there is no NCCL to load.
	ErrNoLibrary = errors.New("no NCCL")

	// ErrNotInLibrary says that NCCL is too old for a function that was called.
	ErrNotInLibrary = errors.New("not in this NCCL")
)

// function is a function of NCCL that this package calls.
type function int

const (
	fnGetVersion function = iota
	fnGetErrorString
	fnGetLastError
	fnGetUniqueID
	fnCommInitRank
	fnCommDestroy
	fnCommAbort
	fnAllReduce
	fnReduce
	fnBroadcast
	fnReduceScatter
	fnAllGather
	fnSend
	fnRecv
	fnGroupStart
	fnGroupEnd

	// Older libraries lack these: before 2.19, 2.27, 2.28.
	fnMemAlloc
	fnMemFree
	fnCommWindowRegister
	fnCommWindowDeregister
	fnAlltoAll

	functionCount
)

var functionNames = [functionCount]string{
	fnGetVersion:           "ncclGetVersion",
	fnGetErrorString:       "ncclGetErrorString",
	fnGetLastError:         "ncclGetLastError",
	fnGetUniqueID:          "ncclGetUniqueId",
	fnCommInitRank:         "ncclCommInitRank",
	fnCommDestroy:          "ncclCommDestroy",
	fnCommAbort:            "ncclCommAbort",
	fnAllReduce:            "ncclAllReduce",
	fnReduce:               "ncclReduce",
	fnBroadcast:            "ncclBroadcast",
	fnReduceScatter:        "ncclReduceScatter",
	fnAllGather:            "ncclAllGather",
	fnSend:                 "ncclSend",
	fnRecv:                 "ncclRecv",
	fnGroupStart:           "ncclGroupStart",
	fnGroupEnd:             "ncclGroupEnd",
	fnMemAlloc:             "ncclMemAlloc",
	fnMemFree:              "ncclMemFree",
	fnCommWindowRegister:   "ncclCommWindowRegister",
	fnCommWindowDeregister: "ncclCommWindowDeregister",
	fnAlltoAll:             "ncclAlltoAll",
}

// Library is NCCL, loaded. It lasts as long as the process.
type Library struct {
	path    string
	version int
	address [functionCount]uintptr // 0 for functions that it lacks
}

// Load loads NCCL, the first time that it is called; later calls return the same. The library
// is libnccl.so.2 where the system's loader finds it, or what $WEFT_NCCL names. An error is an
// [ErrNoLibrary] and says what was looked for, or an [Error].
var Load = sync.OnceValues(func() (*Library, error) {
	if library := os.Getenv(libraryEnv); library != "" {
		return open(library)
	}
	return open("libnccl.so.2")
})

func open(library string) (*Library, error) {
	if !dl.Built {
		return nil, fmt.Errorf("%w: this program can't load any, it was built for another system than Linux on amd64 or arm64, or with the build tag nocuda", ErrNoLibrary)
	}
	handle, err := dl.Open(library)
	if err != nil {
		return nil, fmt.Errorf("%w: %w (%s=/path/libnccl.so.2 names one)", ErrNoLibrary, err, libraryEnv)
	}
	l := &Library{path: library}
	for f, name := range functionNames {
		l.address[f] = dl.Symbol(handle, name)
		if l.address[f] == 0 && function(f) < fnMemAlloc {
			return nil, fmt.Errorf("%w: %s has no %s", ErrNoLibrary, library, name)
		}
	}
	version := new(int32)
	err = l.call(fnGetVersion, uintptr(unsafe.Pointer(version)))
	l.version = int(*version)
	return l, err
}

// Version is NCCL's, such as 2.27.5.
func (l *Library) Version() string { return versionString(l.version) }

func versionString(v int) string {
	if v < 10000 { // until 2.8
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)
}

// Path is the name by which the library was found.
func (l *Library) Path() string { return l.path }

// Settings are the variables of the environment that NCCL reads, as NAME=VALUE.
func Settings() []string {
	var set []string
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "NCCL_") {
			set = append(set, v)
		}
	}
	return set
}

// call calls a function. As with [dl.Call], pointers are turned into integers in the call's own
// arguments.
//
//go:uintptrescapes
func (l *Library) call(f function, args ...uintptr) error {
	if l.address[f] == 0 {
		return fmt.Errorf("%s: %w (%s)", functionNames[f], ErrNotInLibrary, l.Version())
	}
	if code := int32(dl.Call(l.address[f], args...)); code != success {
		return l.failed(f, code)
	}
	return nil
}

const success = 0

// Error is a call that NCCL refused.
type Error struct {
	Op     string // the function
	Code   int    // an ncclResult_t
	Text   string // what NCCL says about the code
	Detail string // and about this case, if anything
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (ncclResult_t %d)", e.Op, e.Text, e.Code)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (l *Library) failed(f function, code int32) error {
	return &Error{
		Op: functionNames[f], Code: int(code),
		Text:   text(dl.Call(l.address[fnGetErrorString], uintptr(code))),
		Detail: strings.TrimSpace(text(dl.Call(l.address[fnGetLastError], 0))),
	}
}

// text copies a string of C.
func text(address uintptr) string {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&address)) // C's memory, which does not move
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
