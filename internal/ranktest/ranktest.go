// Package ranktest starts the ranks of multi-process tests. A test binary is
// its own rank program: [Main] runs a program instead of the tests when the
// environment says so.
package ranktest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const programEnv = "WEFT_TEST_PROGRAM"

// Main is to be called by TestMain. A program returns an error to fail.
func Main(m *testing.M, programs map[string]func() error) {
	name, ok := os.LookupEnv(programEnv)
	if !ok {
		os.Exit(m.Run())
	}
	program, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no program %q\n", name)
		os.Exit(2)
	}
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Job is a set of ranks that run.
type Job struct {
	Ranks []*Rank
	id    string
	temp  string   // the directory for temporary files of its processes, and of nobody else's
	files []string // what was there before
}

// A Rank is one process of a job.
type Rank struct {
	Cmd  *exec.Cmd
	out  lockedBuffer
	done chan struct{}
	err  error
}

// lockedBuffer is output that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Start runs a program on n ranks, as weft run does. What is left of the job
// when the test ends is killed.
func Start(t testing.TB, n int, program string, env ...string) *Job {
	t.Helper()
	var token [16]byte
	rand.Read(token[:])
	job := hex.EncodeToString(token[:])
	j := &Job{id: job, temp: t.TempDir(), files: strayFiles()}
	for r := range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), programEnv+"="+program,
			"WEFT_RANK="+strconv.Itoa(r), "WEFT_SIZE="+strconv.Itoa(n), "WEFT_JOB="+job, "WEFT_TOKEN="+job, "TMPDIR="+j.temp)
		cmd.Env = append(cmd.Env, env...)
		j.start(t, cmd)
	}
	return j
}

// Mpirun runs a program under Open MPI's mpirun and returns the job of that one
// process.
func Mpirun(t testing.TB, n int, program string, flags []string, env ...string) *Job {
	t.Helper()
	args := append([]string{"--allow-run-as-root", "--oversubscribe", "-np", strconv.Itoa(n)}, flags...)
	cmd := exec.Command("mpirun", append(args, os.Args[0])...)
	cmd.Env = append(os.Environ(), programEnv+"="+program)
	cmd.Env = append(cmd.Env, env...)
	j := &Job{}
	j.start(t, cmd)
	return j
}

func (j *Job) start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	r := &Rank{Cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &r.out, &r.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = cmd.Wait()
		close(r.done)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGKILL)
		<-r.done
	})
	j.Ranks = append(j.Ranks, r)
}

// Signal sends a signal to a rank.
func (r *Rank) Signal(s syscall.Signal) error { return r.Cmd.Process.Signal(s) }

// Output returns what the rank has written so far, to both outputs.
func (r *Rank) Output() string { return r.out.String() }

// ErrRunning is what Wait returns when the rank has not ended.
var ErrRunning = errors.New("still running")

// Wait waits for a rank's end, at most d, and returns its error as exec does.
func (r *Rank) Wait(d time.Duration) error {
	select {
	case <-r.done:
		return r.err
	case <-time.After(d):
		return ErrRunning
	}
}

// WaitFor waits until the rank's output contains text, at most d.
func (r *Rank) WaitFor(text string, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if bytes.Contains([]byte(r.Output()), []byte(text)) {
			return nil
		}
	}
	return fmt.Errorf("%q not in the output: %s", text, r.Output())
}

// Succeed waits until all ranks have ended well, and fails the test otherwise.
func (j *Job) Succeed(t testing.TB, d time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	for i, r := range j.Ranks {
		if err := r.Wait(time.Until(end)); err != nil {
			t.Fatalf("rank %d: %v\n%s", i, err, r.Output())
		}
	}
}

// Leftovers returns what is left of the job: its processes, its temporary files, and new
// files named after weft where shared memory might be.
func (j *Job) Leftovers() []string {
	var left []string
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("WEFT_JOB="+j.id)) {
			left = append(left, filepath.Dir(path))
		}
	}
	temporary, _ := filepath.Glob(filepath.Join(j.temp, "*"))
	left = append(left, temporary...)
	for _, f := range strayFiles() {
		if !slices.Contains(j.files, f) {
			left = append(left, f)
		}
	}
	return left
}

func strayFiles() []string {
	files, _ := filepath.Glob("/dev/shm/*weft*")
	return files
}
