package launch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A guard is a process that outlives a launcher which is killed by force, and then
// ends what is left of the ranks' process groups. It knows of the launcher's end by
// the pipe between them, and of the groups by what comes through it.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File
}

// startGuard starts a guard: the command is to call [Guard] with its standard input.
func startGuard(command []string) (*guard, error) {
	r, w, err := os.Pipe() // not for the ranks: it is closed on exec
	if err != nil {
		return nil, err
	}
	defer r.Close()
	g := &guard{cmd: exec.Command(command[0], command[1:]...), pipe: w}
	g.cmd.Stdin = r
	g.cmd.SysProcAttr = guardAttr()
	if err := g.cmd.Start(); err != nil {
		w.Close()
		return nil, err
	}
	return g, nil
}

// watch has the guard end a group with the launcher. It may be called on nil, as may
// the others.
func (g *guard) watch(group int) { g.tell(group) }

// forget tells it that nothing is left of a group. It comes before another may get
// the number.
func (g *guard) forget(group int) { g.tell(-group) }

func (g *guard) tell(n int) {
	if g != nil {
		fmt.Fprintln(g.pipe, n) // a guard that is gone is no reason to end the job
	}
}

// stop ends the guard, when all is forgotten.
func (g *guard) stop() {
	if g != nil {
		g.pipe.Close()
		_ = g.cmd.Wait()
	}
}

// Guard is what a guard does: it reads of process groups until the launcher has ended,
// and kills those that it was not told to forget.
func Guard(from io.Reader) {
	groups := map[int]bool{}
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var n int
		if _, err := fmt.Sscan(lines.Text(), &n); err != nil || n == 0 || n == 1 || n == -1 {
			continue
		}
		if n > 0 {
			groups[n] = true
		} else {
			delete(groups, -n)
		}
	}
	for group := range groups {
		killGroup(group)
	}
}
