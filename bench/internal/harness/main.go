package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/bench/peers/mpiloop"
	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	engine "github.com/weft-go/weft/transport/progress"
)

// Exit statuses.
const (
	statusFailure = 1
	statusUsage   = 2
)

// Main runs a benchmark program on this rank and returns its exit status. algo
// is the algorithm of a program that has only one, or nothing.
func Main(name, algo string, args []string) int {
	p := program{name: name, algo: algo, stdout: os.Stdout, stderr: os.Stderr}
	return p.main(args)
}

type program struct {
	name, algo     string
	stdout, stderr io.Writer
	tamper         tamperer // in tests
}

func (p *program) main(args []string) int {
	first := firstRank(os.Getenv)
	complain := func(err error) {
		if first {
			fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
		}
	}
	help := io.Discard
	if first {
		help = p.stdout
	}
	cfg, err := parseFlags(p.name, p.algo, args, help)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		complain(err)
		return statusUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := p.run(ctx, &cfg, first); err != nil {
		if !errors.Is(err, comm.ErrAborted) || first {
			fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
		}
		return statusFailure
	}
	return 0
}

// firstRank says whether this is rank 0, before the job has come together, by
// what launchers set.
func firstRank(getenv func(string) string) bool {
	for _, v := range []string{"WEFT_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"} {
		if s := getenv(v); s != "" {
			return s == "0"
		}
	}
	return true
}

// errWrong is what a run ends with whose results are not all right.
var errWrong = errors.New("wrong results")

// run joins the job, measures everything, and leaves.
func (p *program) run(ctx context.Context, cfg *config, first bool) (err error) {
	var file *os.File
	if cfg.json != "" && first {
		if file, err = os.Create(cfg.json); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	s := &job{program: p, cfg: cfg, out: record.NewWriter(nil), print: io.Discard, faults: map[string]engine.PeerStats{}}
	if file != nil {
		s.out = record.NewWriter(file)
	}
	// Whatever ends the run is in the file as well.
	defer func() {
		if v := recover(); v != nil {
			err = errors.Join(err, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
		if err != nil {
			s.progress.clear()
			err = errors.Join(err, s.rest())
			if werr := s.out.Write(s.failure(err)); werr != nil {
				err = errors.Join(err, werr)
			}
		}
	}()
	s.env = environment(nil, p.name, cfg.args, mpiloop.Version())

	if cfg.algo != "" {
		if err := os.Setenv("WEFT_ALGO", cfg.algo); err != nil {
			return err
		}
	}
	if cfg.peer == "mpi" || cfg.peer == "empi" {
		if err := mpiloop.Start(); err != nil {
			return fmt.Errorf("-peer %s: %w", cfg.peer, err)
		}
	}
	opts := []comm.Option{comm.WithTimeout(cfg.timeout)}
	if cfg.transport != "" {
		opts = append(opts, comm.WithTransport(cfg.transport))
	}
	c, err := comm.Init(ctx, opts...)
	if err != nil {
		return err
	}
	if err = s.all(ctx, c); err != nil && !errors.Is(err, errWrong) {
		// At once: whoever ends this process may not wait for long.
		err = errors.Join(err, s.rest())
		s.gpu.abort()
		c.Abort(err)
		c.Close()
		return err
	}
	err = errors.Join(err, c.Close())
	if cfg.peer == "mpi" || cfg.peer == "empi" {
		mpiloop.Finish()
	}
	return err
}

// A job is a run, once the job has come together.
type job struct {
	program  *program
	cfg      *config
	c        *comm.Communicator
	peer     *peer
	pool     pool // of weft's buffers
	peerPool pool // of the peer's
	env      record.Env
	cost     waitCosts
	gpu      *gpu     // this rank's, if the data are on GPUs
	gpuNames []string // of all ranks
	out      *record.Writer
	print    io.Writer // nothing on ranks but 0
	progress progress
	faults   map[string]engine.PeerStats // by collective

	sheets []*sheet
	saved  bool // whether the file has all lines, if there are several cycles

	coll  *collective // what is being measured
	bytes int64
	ranks int
}

// failure is the line for an error.
func (s *job) failure(err error) record.Failure {
	f := record.Failure{Error: strings.TrimSpace(err.Error()), Ranks: s.ranks, Env: s.env}
	if s.coll != nil {
		f.Coll, f.Bytes = s.coll.name, s.bytes
	}
	return f
}

// all measures every collective with every type and operator.
func (s *job) all(ctx context.Context, c *comm.Communicator) error {
	s.c, s.ranks = c, c.Size()
	mpi := mpiloop.Version()
	if c.Rank() == 0 {
		s.print = s.program.stdout
		s.progress = newProgress(os.Stderr)
		if mpi == "" {
			mpi = launcherMPI(c.Source())
		}
	}
	s.env = environment(c, s.program.name, s.cfg.args, mpi)
	if s.cfg.root >= c.Size() {
		return fmt.Errorf("-r %d: there are %d ranks", s.cfg.root, c.Size())
	}
	var err error
	if s.cfg.device == "cuda" {
		if err := s.openGPU(ctx); err != nil {
			return err
		}
	}
	if s.peer, err = newPeer(ctx, s.cfg, c, s.gpu); err != nil {
		return err
	}
	if s.gpu != nil && s.peer != nil {
		s.env.NCCL = s.peer.version
	}
	s.sheets = newSheets(s.cfg, s.ranks)
	// All at once, as they wait.
	if err := collectives.Barrier(ctx, c); err != nil {
		return err
	}
	s.cost.pause, s.cost.yield = c.WaitPolicy().Costs()
	if err := s.allocate(ctx); err != nil {
		return err
	}
	for cycle := range s.cfg.cycles {
		if err := s.sweep(ctx, cycle); err != nil {
			return err
		}
	}
	if s.gpu != nil {
		if err := errors.Join(s.pool.free(), s.gpu.close()); err != nil {
			return err
		}
	}
	var wrong int64
	for _, sh := range s.sheets {
		wrong += sh.sum.wrong + sh.peerWrong
	}
	if wrong > 0 {
		s.coll = nil
		return fmt.Errorf("%w: %d elements", errWrong, wrong)
	}
	return nil
}

// openGPU opens the GPUs, and says in the results which they are.
func (s *job) openGPU(ctx context.Context) error {
	var err error
	if s.gpu, err = openGPU(ctx, s.c, s.cfg.timeout); err != nil {
		return err
	}
	s.env.GPU, s.env.Driver, s.gpuNames, err = s.gpu.describe(ctx)
	return err
}

// allocate gets the buffers. A peer has those of the Go heap, as it would have
// without this library; on GPUs it has ours.
func (s *job) allocate(ctx context.Context) error {
	var largest int64
	for _, sh := range s.sheets {
		for _, e := range sh.entries {
			src, dst := sh.coll.elements(e.count, s.ranks)
			largest = max(largest, src*int64(e.typ.Size()), dst*int64(e.typ.Size()))
		}
	}
	region := regionBytes(largest, s.ranks, lastLevelCache(), s.cfg.warm)
	var err error
	switch {
	case s.gpu != nil:
		if region, err = s.gpu.region(largest, s.cfg.warm); err == nil {
			s.pool, err = gpuMemory(ctx, s.gpu, region, s.cfg.memory, s.cfg.peer == "nccl-symmetric")
		}
	case s.cfg.memory == "symmetric":
		s.pool, err = symmetricPool(ctx, s.c, region)
	default:
		s.pool = heapPool(region)
	}
	if err != nil {
		return err
	}
	s.peerPool = s.pool
	if s.apart() {
		s.peerPool = heapPool(region)
	}
	runtime.GC()
	return nil
}

// sweep measures every row once. The last time rows are reported as they come.
func (s *job) sweep(ctx context.Context, cycle int) error {
	last := cycle == s.cfg.cycles-1
	for _, sh := range s.sheets {
		s.coll, s.bytes = sh.coll, 0
		if last {
			s.heading(sh)
		}
		var mk maker
		for i, e := range sh.entries {
			if i == 0 || e.typ != sh.entries[i-1].typ || e.op != sh.entries[i-1].op {
				mk = s.newMaker(e.typ, sh.coll.reduces, e.op)
				if err := s.pool.fill(mk, s.c.Rank()); err != nil {
					return err
				}
				if s.apart() {
					mk.fill(s.peerPool.src, s.c.Rank(), 0)
				}
			}
			s.bytes = sh.coll.bytes(e.count, e.typ.Size(), s.ranks)
			again := ""
			if s.cfg.cycles > 1 {
				again = fmt.Sprintf("cycle %d of %d: ", cycle+1, s.cfg.cycles)
			}
			s.progress.show("%s%s %s %d bytes (%d of %d)", again, sh.coll.name, typeName(e.typ), s.bytes, i+1, len(sh.entries))
			r, err := s.row(ctx, sh.coll, e.typ, e.op, e.count, mk)
			s.progress.clear()
			if err != nil {
				return err
			}
			e.cycles = append(e.cycles, r)
			if last {
				if err := s.report(sh, e); err != nil {
					return err
				}
			}
		}
		if last {
			s.conclude(sh)
		}
	}
	if s.cfg.cycles == 1 {
		return nil
	}
	return s.save(last)
}
