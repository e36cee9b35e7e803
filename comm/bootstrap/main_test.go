//go:build linux

package bootstrap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// agentVar makes the test binary a rank instead: an agent that takes commands
// from stdin, or a whole program that runs to its end.
const agentVar = "WEFT_TEST_AGENT"

// builtWithMPI says whether the tests are built with -tags mpi.
var builtWithMPI bool

// programs are what a rank does under mpirun, where nobody can talk to it.
var programs = map[string]func(ctx context.Context) error{
	"exchange": func(ctx context.Context) error { return exchange(ctx, 1) },
	"cycles":   func(ctx context.Context) error { return exchange(ctx, 20) },
}

func TestMain(m *testing.M) {
	name := os.Getenv(agentVar)
	if name == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if name == "agent" {
		agent(ctx)
		return
	}
	if err := programs[name](ctx); err != nil {
		fmt.Println("failed:", err)
		os.Exit(3)
	}
}

// exchange connects, talks to everyone, and closes, several times.
func exchange(ctx context.Context, times int) error {
	for range times {
		c, err := Connect(ctx, Config{})
		if err != nil {
			return err
		}
		x := &exchanger{want: c.Size(), done: make(chan struct{})}
		c.Start(x)
		for to := range c.Size() {
			if err := c.Send(to, Message{Kind: 5, Seq: uint64(c.Rank()), Data: []byte(c.Peer(c.Rank()).Host)}); err != nil {
				return err
			}
		}
		select {
		case <-x.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		fmt.Printf("exchanged: %s %d/%d\n", c.Source(), c.Rank(), c.Size())
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

type exchanger struct {
	mu   sync.Mutex
	want int
	done chan struct{}
}

func (x *exchanger) HandleMessage(from int, m Message) {
	if m.Kind != 5 || m.Seq != uint64(from) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.want--; x.want == 0 {
		close(x.done)
	}
}
func (x *exchanger) HandleGone(int, error) {}

// say prints one line in one write.
func say(format string, args ...any) { fmt.Println(fmt.Sprintf(format, args...)) }

// talker says what a channel tells it.
type talker struct{}

func (talker) HandleMessage(from int, m Message) {
	say("msg %d kind=%d len=%d files=%d", from, m.Kind, len(m.Data), len(m.Files))
	for _, f := range m.Files {
		b := make([]byte, 100)
		n, err := f.ReadAt(b, 0)
		if err != nil && err != io.EOF {
			say("file: %v", err)
			return
		}
		say("file %s", b[:n])
		f.WriteAt([]byte("seen"), 0)
		f.Close()
	}
}

func (talker) HandleGone(peer int, err error) {
	say("gone %d at=%d gone=%t", peer, time.Now().UnixNano(), errors.Is(err, ErrGone))
}

// joinTeller is a log that says which ranks rank 0 has let in.
type joinTeller struct{ slog.Handler }

func (joinTeller) Enabled(context.Context, slog.Level) bool { return true }

func (joinTeller) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "weft: rank joined" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "peer" {
				say("joined %s", a.Value)
			}
			return true
		})
	}
	return nil
}

// agent obeys commands.
func agent(ctx context.Context) {
	var c Channel
	var mem *os.File
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var cmd string
		var a, b int
		fmt.Sscan(in.Text(), &cmd, &a, &b)
		switch cmd {
		case "connect":
			var err error
			cctx, cancel := context.WithTimeout(ctx, time.Duration(a)*time.Millisecond)
			c, err = Connect(cctx, Config{Logger: slog.New(joinTeller{slog.DiscardHandler})})
			cancel()
			if err != nil {
				say("connect failed: %v", err)
				continue
			}
			c.Start(talker{})
			say("connected %d/%d %s", c.Rank(), c.Size(), c.Source())
		case "send": // to, bytes
			start := time.Now()
			err := c.Send(a, Message{Kind: 1, Data: make([]byte, b)})
			say("sent %t %d", err == nil, time.Since(start).Milliseconds())
		case "flood": // to, how many
			start := time.Now()
			var err error
			for i := 0; i < b && err == nil; i++ {
				err = c.Send(a, Message{Kind: 1, Data: make([]byte, MaxData)})
			}
			say("flooded %t %d", err == nil, time.Since(start).Milliseconds())
		case "file":
			var err error
			if mem, err = memfd("content"); err == nil {
				err = c.Send(a, Message{Kind: 2, Files: []*os.File{mem}})
			}
			say("sent %t", err == nil)
		case "look":
			buf := make([]byte, 4)
			mem.ReadAt(buf, 0)
			say("looked %s", buf)
		case "close":
			cctx, cancel := context.WithTimeout(ctx, time.Duration(a)*time.Millisecond)
			start := time.Now()
			err := c.Close(cctx)
			cancel()
			say("closed %t %d", err == nil, time.Since(start).Milliseconds())
		case "count":
			fds, _ := os.ReadDir("/proc/self/fd")
			say("counted %d %d", runtime.NumGoroutine(), len(fds))
		case "spin":
			go func() {
				for n := 0; ; n++ { // as a busy program would
				}
			}()
			say("spinning")
		case "exit":
			os.Exit(a)
		}
	}
}

// A rank is an agent seen from the test.
type rank struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	mu    sync.Mutex
	lines []string
	more  chan struct{}
	over  chan struct{}
}

// cleanEnv is this process's environment without any launcher's variables.
func cleanEnv(more env) []string {
	var out []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch prefix, _, _ := strings.Cut(name, "_"); prefix {
		case "WEFT", "OMPI", "PMI", "PMIX", "SLURM", "TORCHELASTIC", "MASTER", "RANK", "WORLD", "LOCAL", "MPI":
		default:
			out = append(out, kv)
		}
	}
	for k, v := range more {
		out = append(out, k+"="+v)
	}
	return out
}

// startRanks starts an agent for each environment.
func startRanks(t testing.TB, envs []env) []*rank {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	ranks := make([]*rank, len(envs))
	for i, e := range envs {
		r := &rank{t: t, cmd: exec.Command(exe), more: make(chan struct{}, 1), over: make(chan struct{})}
		r.cmd.Env = cleanEnv(e.with(env{agentVar: "agent"}))
		r.cmd.Stderr = os.Stderr
		r.in, err = r.cmd.StdinPipe()
		require.NoError(t, err)
		out, err := r.cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, r.cmd.Start())
		go r.listen(out)
		t.Cleanup(func() {
			r.cmd.Process.Signal(syscall.SIGKILL)
			<-r.over
			r.cmd.Wait()
		})
		ranks[i] = r
	}
	return ranks
}

func (r *rank) listen(out io.Reader) {
	defer close(r.over)
	for s := bufio.NewScanner(out); s.Scan(); {
		r.mu.Lock()
		r.lines = append(r.lines, s.Text())
		r.mu.Unlock()
		select {
		case r.more <- struct{}{}:
		default:
		}
	}
}

func (r *rank) do(format string, args ...any) {
	r.t.Helper()
	_, err := fmt.Fprintf(r.in, format+"\n", args...)
	require.NoError(r.t, err)
}

// expect waits for a line that begins with prefix, removes it and returns the rest.
func (r *rank) expect(prefix string) string {
	r.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		for i, line := range r.lines {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				r.lines = append(r.lines[:i], r.lines[i+1:]...)
				r.mu.Unlock()
				return strings.TrimSpace(rest)
			}
		}
		lines := fmt.Sprint(r.lines)
		r.mu.Unlock()
		select {
		case <-r.more:
		case <-deadline:
			require.FailNow(r.t, "no such line", "waited for %q, have %s", prefix, lines)
		}
	}
}
