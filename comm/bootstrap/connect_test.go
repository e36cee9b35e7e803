//go:build linux

package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These tests run the rendezvous and the mesh with real sockets, but with all
// ranks in this process, each with an environment of its own.

type result struct {
	ch  Channel
	err error
}

// job returns the environments of n ranks.
func job(n int, more env) []env {
	envs := make([]env, n)
	id := randomName()
	for r := range envs {
		envs[r] = env{"WEFT_RANK": strconv.Itoa(r), "WEFT_SIZE": strconv.Itoa(n), "WEFT_JOB": id}.with(more)
	}
	return envs
}

// connectAll connects them at once; tweak may be nil.
func connectAll(t testing.TB, timeout time.Duration, envs []env, tweak func(i int, p *party)) []result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	results := make([]result, len(envs))
	var wg sync.WaitGroup
	for i, e := range envs {
		wg.Go(func() {
			cfg := Config{LookupEnv: e.lookup, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
			if tweak != nil {
				cfg.tweak = func(p *party) { tweak(i, p) }
			}
			results[i].ch, results[i].err = Connect(ctx, cfg)
		})
	}
	wg.Wait()
	return results
}

func channels(t testing.TB, results []result) []Channel {
	t.Helper()
	cs := make([]Channel, len(results))
	for i, r := range results {
		require.NoError(t, r.err, "rank %d", i)
		cs[i] = r.ch
	}
	return cs
}

// freePort returns an address on the loopback interface that nobody uses. It is none of
// those that the system gives to whoever asks for any, as another test may at this moment.
func freePort(t testing.TB) string {
	var err error
	for range 100 {
		var ln net.Listener
		if ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))); err == nil {
			defer ln.Close()
			return ln.Addr().String()
		}
	}
	require.NoError(t, err)
	return ""
}

// leaks returns a check that goroutines and descriptors are no more than now.
func leaks(t testing.TB) func() {
	r, w, err := os.Pipe() // has the runtime make its poller, whose descriptors stay
	require.NoError(t, err)
	r.Close()
	w.Close()
	count := func() (int, int) {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return runtime.NumGoroutine(), len(fds)
	}
	goroutines, fds := count()
	return func() {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; {
			g, f := count()
			if g <= goroutines && f <= fds {
				return
			}
			if time.Now().After(end) {
				buf := make([]byte, 1<<20)
				require.FailNow(t, "leak", "%d goroutines, were %d; %d descriptors, were %d\n%s", g, goroutines, f, fds, buf[:runtime.Stack(buf, true)])
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestConnect(t *testing.T) {
	tests := []struct {
		name  string
		n     int
		env   func(t *testing.T) env
		files bool
	}{
		{"one", 1, nil, true},
		{"two", 2, nil, true},
		{"eight", 8, nil, true},
		{"TCP rendezvous", 3, func(t *testing.T) env { return env{"WEFT_ROOT": freePort(t), "WEFT_TOKEN": "s"} }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check := leaks(t)
			var more env
			if tt.env != nil {
				more = tt.env(t)
			}
			cs := channels(t, connectAll(t, 20*time.Second, job(tt.n, more), nil))
			require.Equal(t, "weft run", cs[0].Source())
			testContract(t, cs, tt.n == 1, tt.files)
			check()
		})
	}
}

func TestConnectNodes(t *testing.T) {
	check := leaks(t)
	envs := job(4, env{"WEFT_ROOT": freePort(t), "WEFT_TOKEN": "secret"})
	for r, e := range envs {
		e["WEFT_NODE"] = fmt.Sprint(r) // each rank on its own node
	}
	cs := channels(t, connectAll(t, 20*time.Second, envs, nil))
	require.NotEqual(t, cs[0].Peer(0).Node, cs[0].Peer(1).Node)
	testContract(t, cs, false, false)
	check()

	for r, e := range envs {
		e["WEFT_NODE"] = fmt.Sprint(r / 2) // two and two
	}
	cs = channels(t, connectAll(t, 20*time.Second, envs, nil)) // the same address again
	require.Equal(t, cs[0].Peer(0).Node, cs[0].Peer(1).Node)
	require.NotEqual(t, cs[0].Peer(0).Node, cs[0].Peer(2).Node)
	rec := newRecorder()
	cs[1].Start(rec)
	require.NoError(t, cs[0].Send(1, Message{Files: []*os.File{os.Stdin}}))
	closeFiles(rec.await(t, 0, 1)[0].msg.Files)
	require.ErrorIs(t, cs[0].Send(2, Message{Files: []*os.File{os.Stdin}}), ErrMessage)
	closeAll(t, cs)
	check()
}

func TestConnectAgain(t *testing.T) {
	check := leaks(t)
	envs := job(3, nil)
	for range 50 {
		cs := channels(t, connectAll(t, 20*time.Second, envs, nil))
		require.NoError(t, cs[1].Send(0, Message{}))
		closeAll(t, cs)
	}
	two := channels(t, connectAll(t, 20*time.Second, envs, nil)) // two channels at once
	cs := channels(t, connectAll(t, 20*time.Second, envs, nil))
	closeAll(t, append(cs, two...))
	check()
}

// TestConnectRefuses checks that every rank learns of what can't be, and why.
func TestConnectRefuses(t *testing.T) {
	tests := []struct {
		name  string
		envs  func() []env
		tweak func(i int, p *party)
		want  error
		ranks []int
		texts []string // that one of the errors contains
	}{
		{
			name:  "duplicate rank",
			envs:  func() []env { e := job(3, nil); e[2]["WEFT_RANK"] = "1"; return e },
			want:  ErrDuplicateRank,
			ranks: []int{1},
		},
		{
			name:  "duplicate rank 0",
			envs:  func() []env { e := job(3, nil); return append(e[:2], e[0]) },
			want:  ErrDuplicateRank,
			ranks: []int{0},
		},
		{
			name:  "larger size",
			envs:  func() []env { e := job(3, nil); e[2]["WEFT_SIZE"] = "5"; return e },
			want:  ErrSize,
			ranks: []int{2},
			texts: []string{"5 ranks, rank 0 says 3"},
		},
		{
			name:  "rank beyond the size",
			envs:  func() []env { e := job(3, nil); e[2]["WEFT_RANK"] = "4"; e[2]["WEFT_SIZE"] = "5"; return e },
			want:  ErrSize,
			ranks: []int{4},
		},
		{
			name: "other version",
			envs: func() []env { return job(3, nil) },
			tweak: func(i int, p *party) {
				if i == 1 {
					p.version++
				}
			},
			want: ErrVersion,
		},
		{
			name: "other generation",
			envs: func() []env { return job(3, env{"WEFT_ROOT": freePort(t), "WEFT_TOKEN": "s"}) },
			tweak: func(i int, p *party) {
				if i == 1 {
					p.gen++
				}
			},
			want:  ErrGeneration,
			ranks: []int{1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check := leaks(t)
			start := time.Now()
			for i, r := range connectAll(t, 20*time.Second, tt.envs(), tt.tweak) {
				require.ErrorIs(t, r.err, tt.want, "process %d", i)
				var je *JoinError
				require.ErrorAs(t, r.err, &je)
				if tt.ranks != nil {
					require.Equal(t, tt.ranks, je.Ranks)
				}
				for _, text := range tt.texts {
					require.ErrorContains(t, r.err, text)
				}
			}
			require.Less(t, time.Since(start), 10*time.Second)
			check()
		})
	}
}

func TestConnectOtherUser(t *testing.T) {
	check := leaks(t)
	envs := job(2, nil)
	results := connectAll(t, time.Second, envs, func(i int, p *party) {
		if i == 0 {
			p.uid++ // to rank 0, everyone else is somebody else
		}
	})
	require.ErrorIs(t, results[1].err, ErrUser)
	require.ErrorIs(t, results[0].err, ErrMissing)
	results = connectAll(t, time.Second, envs, func(i int, p *party) {
		if i == 1 {
			p.uid++ // somebody else sits in rank 0's place
		}
	})
	require.ErrorIs(t, results[1].err, ErrUser)
	require.ErrorContains(t, results[1].err, "rank 0")
	check()
}

// TestConnectImpostor checks that strangers are refused while the job succeeds.
func TestConnectImpostor(t *testing.T) {
	for _, kind := range []string{"unix", "tcp"} {
		t.Run(kind, func(t *testing.T) {
			check := leaks(t)
			var more env
			root := freePort(t)
			if kind == "tcp" {
				more = env{"WEFT_ROOT": root, "WEFT_NODE": "a"}
			}
			good := job(3, more.with(env{"WEFT_TOKEN": "right"}))
			bad := good[1].with(env{"WEFT_TOKEN": "wrong"})
			var early []result
			var wg sync.WaitGroup
			wg.Go(func() { early = connectAll(t, 20*time.Second, good[:2], nil) })
			impostor := connectAll(t, 20*time.Second, []env{bad}, nil)
			require.ErrorIs(t, impostor[0].err, ErrToken)
			var strangers []net.Conn
			if kind == "tcp" { // and one who talks nonsense, and many who say nothing
				for range 20 {
					c, err := net.Dial("tcp", root)
					require.NoError(t, err)
					strangers = append(strangers, c)
				}
				c, err := net.Dial("tcp", root)
				require.NoError(t, err)
				strangers = append(strangers, c)
				_, err = c.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 100))
				require.NoError(t, err)
			}
			late := connectAll(t, 20*time.Second, good[2:], nil)
			wg.Wait()
			closeAll(t, channels(t, append(early, late...)))
			for _, c := range strangers {
				c.Close()
			}
			check()
		})
	}
}

// TestConnectFalseRoot checks that proof is asked of both sides: who
// sits at the address and does not know the token is found out.
func TestConnectFalseRoot(t *testing.T) {
	root := freePort(t)
	envs := job(2, env{"WEFT_ROOT": root})
	envs[0]["WEFT_TOKEN"], envs[1]["WEFT_TOKEN"] = "theirs", "ours"
	results := connectAll(t, 2*time.Second, envs, nil)
	require.ErrorIs(t, results[1].err, ErrToken)
	require.ErrorIs(t, results[0].err, ErrMissing)
}

func TestConnectMissing(t *testing.T) {
	check := leaks(t)
	envs := job(5, nil)
	start := time.Now()
	for i, r := range connectAll(t, time.Second, []env{envs[0], envs[2]}, nil) {
		require.ErrorIs(t, r.err, ErrMissing)
		require.ErrorIs(t, r.err, context.DeadlineExceeded)
		var je *JoinError
		require.ErrorAs(t, r.err, &je)
		require.Equal(t, []int{1, 3, 4}, je.Ranks, "process %d: %v", i, r.err)
		require.ErrorContains(t, r.err, "ranks 1, 3, 4")
	}
	require.Less(t, time.Since(start), 10*time.Second)
	for _, r := range connectAll(t, 300*time.Millisecond, envs[3:], nil) { // no rank 0
		var je *JoinError
		require.ErrorAs(t, r.err, &je)
		require.Equal(t, []int{0}, je.Ranks)
		require.ErrorIs(t, r.err, ErrMissing)
	}
	cs := channels(t, connectAll(t, 20*time.Second, envs, nil)) // failures don't count
	closeAll(t, cs)
	check()
}

func TestConnectCanceled(t *testing.T) {
	check := leaks(t)
	envs := job(3, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var others []result
	var err error
	wg.Go(func() {
		others = connectAll(t, 20*time.Second, envs[:1], func(_ int, p *party) {
			// Once rank 1 knows it, too: before that it just ends the connection.
			p.log = slog.New(hook{slog.DiscardHandler, "weft: rank joined", func() { time.AfterFunc(300*time.Millisecond, cancel) }})
		})
	})
	wg.Go(func() { _, err = Connect(ctx, Config{LookupEnv: envs[1].lookup}) })
	wg.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, others[0].err, ErrCanceled)
	require.ErrorContains(t, others[0].err, "rank 1")
	check()
}

func TestConnectAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // like torchrun's agent: takes calls and says nothing
	require.NoError(t, err)
	defer ln.Close()
	envs := job(2, env{"WEFT_ROOT": ln.Addr().String(), "WEFT_TOKEN": "s"})
	results := connectAll(t, time.Second, envs, nil)
	require.ErrorIs(t, results[0].err, ErrAddress)
	require.ErrorContains(t, results[0].err, "set WEFT_ROOT")
	require.ErrorIs(t, results[1].err, ErrMissing)
}

// TestUnresponsive checks that Send never blocks on a peer that takes nothing.
func TestUnresponsive(t *testing.T) {
	check := leaks(t)
	cs := channels(t, connectAll(t, 20*time.Second, job(2, nil), nil))
	rec := newRecorder()
	cs[0].Start(rec)
	b := make(blocker)
	cs[1].Start(b)
	var err error
	data := make([]byte, MaxData)
	for range 2 * maxQueue / MaxData {
		start := time.Now()
		if err = cs[0].Send(1, Message{Data: data}); err != nil {
			break
		}
		require.Less(t, time.Since(start), 10*time.Second)
	}
	require.ErrorIs(t, err, ErrUnresponsive)
	require.ErrorIs(t, err, ErrGone)
	require.ErrorIs(t, rec.awaitGone(t, 1).err, ErrUnresponsive)
	close(b)
	closeAll(t, cs)
	check()
}

// TestCloseUndelivered checks that Close ends with its context and names who
// did not get everything.
func TestCloseUndelivered(t *testing.T) {
	check := leaks(t)
	cs := channels(t, connectAll(t, 20*time.Second, job(2, nil), nil))
	b := make(blocker)
	cs[1].Start(b)
	rec := newRecorder()
	cs[0].Start(rec)
	for range 100 {
		require.NoError(t, cs[0].Send(1, Message{Data: make([]byte, MaxData)}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := cs[0].Close(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "rank 1")
	require.NoError(t, rec.awaitGone(t, 1).err)
	close(b)
	closeAll(t, cs)
	check()
}

// TestMalformed checks that nonsense from a peer ends the connection, no more.
func TestMalformed(t *testing.T) {
	for name, raw := range map[string][]byte{
		"garbage":        []byte("hello?"),
		"oversize":       make([]byte, maxFrame+100),
		"wrong type":     (&frame{typ: frameTable}).encode(),
		"missing files":  {magic, byte(frameMessage), 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"two goodbyes":   append((&frame{typ: frameGoodbye}).encode(), (&frame{typ: frameGoodbye}).encode()...),
		"short a header": {magic, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			check := leaks(t)
			cs := channels(t, connectAll(t, 20*time.Second, job(2, nil), nil))
			rec := newRecorder()
			cs[0].Start(rec)
			_, err := cs[1].(*mesh).links[0].conn.Conn.Write(raw)
			require.NoError(t, err)
			gone := rec.awaitGone(t, 1)
			require.ErrorIs(t, gone.err, ErrGone)
			require.ErrorIs(t, gone.err, ErrProtocol)
			closeAll(t, cs)
			check()
		})
	}
}

func TestDefaultDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := Connect(ctx, Config{LookupEnv: job(2, nil)[0].lookup})
	require.ErrorIs(t, err, ErrCanceled)
	require.False(t, errors.Is(err, context.DeadlineExceeded))
}

// TestConnectSources connects by the variables of each launcher.
func TestConnectSources(t *testing.T) {
	tests := []struct {
		source     string
		rank, size string
		more       env
	}{
		{"env:OMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", env{"OMPI_MCA_ess_base_jobid": randomName()}},
		{"env:PMI", "PMI_RANK", "PMI_SIZE", env{"PMI_JOBID": randomName()}},
		{"env:PMI", "PMI_RANK", "PMI_SIZE", env{"MPI_LOCALNRANKS": "3"}}, // told apart by the parent
		{"env:SLURM", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", env{"SLURM_JOB_ID": randomName(), "SLURM_STEP_ID": "0"}},
		{"env:torchrun", "RANK", "WORLD_SIZE", env{"MASTER_ADDR": "nowhere.invalid", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": randomName()}},
	}
	for _, tt := range tests {
		t.Run(tt.source, func(t *testing.T) {
			envs := make([]env, 3)
			for r := range envs {
				envs[r] = tt.more.with(env{tt.rank: strconv.Itoa(r), tt.size: "3"})
			}
			if tt.source != "env:torchrun" && builtWithMPI {
				t.Log("with MPI these launchers lead to MPI_Init, which needs the real thing")
				return
			}
			cs := channels(t, connectAll(t, 20*time.Second, envs, nil))
			require.Equal(t, tt.source, cs[0].Source())
			closeAll(t, cs)
		})
	}
}

func TestPMIxAlone(t *testing.T) {
	if builtWithMPI {
		return // MPI knows the size
	}
	_, err := Connect(t.Context(), Config{LookupEnv: env{"PMIX_RANK": "1"}.lookup})
	var le *LaunchError
	require.ErrorAs(t, err, &le)
	require.ErrorContains(t, err, "-tags mpi")
}

// TestRefuse: all ranks learn which of them can't take part, and why.
func TestRefuse(t *testing.T) {
	for bad := range 3 {
		t.Run(strconv.Itoa(bad), func(t *testing.T) {
			defer leaks(t)()
			errs := make([]error, 3)
			var wg sync.WaitGroup
			for r, e := range job(3, nil) {
				wg.Go(func() {
					cfg := Config{LookupEnv: e.lookup}
					if r == bad {
						Refuse(t.Context(), cfg, "it has no wool")
						return
					}
					if r == 2 {
						time.Sleep(50 * time.Millisecond) // comes when the others know
					}
					_, errs[r] = Connect(t.Context(), cfg)
				})
			}
			wg.Wait()
			for r, err := range errs {
				if r == bad {
					continue
				}
				var e *JoinError
				require.ErrorAs(t, err, &e, "rank %d", r)
				require.ErrorIs(t, e, ErrRefused)
				require.Equal(t, []int{bad}, e.Ranks)
				require.Equal(t, "it has no wool", e.Detail)
			}
		})
	}
	Refuse(t.Context(), Config{LookupEnv: env{}.lookup}, "") // there is nobody to tell
}

// TestWrongLaunch: a rank whose environment is wrong in what does not say which rank it
// is tells the others.
func TestWrongLaunch(t *testing.T) {
	for name, wrong := range map[string]string{"WEFT_SINGLE": "perhaps", "WEFT_ROOT": "nowhere"} {
		for _, bad := range []int{0, 2} {
			t.Run(fmt.Sprint(name, bad), func(t *testing.T) {
				defer leaks(t)()
				envs := job(3, nil)
				envs[bad] = envs[bad].with(env{name: wrong})
				for r, x := range connectAll(t, 20*time.Second, envs, nil) {
					if r == bad {
						var le *LaunchError
						require.ErrorAs(t, x.err, &le)
						require.Equal(t, name+"="+wrong, le.Seen)
						continue
					}
					var e *JoinError
					require.ErrorAs(t, x.err, &e, "rank %d", r)
					require.ErrorIs(t, e, ErrRefused)
					require.Equal(t, []int{bad}, e.Ranks)
					require.ErrorContains(t, e, ": launch: ")
					require.ErrorContains(t, e, name+"="+wrong)
				}
			})
		}
	}
}
