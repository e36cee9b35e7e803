// Command weft starts programs that use the weft library, and tells about the
// machine that they run on.
package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/weft-go/weft/cmd/weft/internal/launch"
)

// A command is one subcommand. run returns the exit status.
type command struct {
	name    string
	summary string
	run     func(args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// commands is the table of subcommands, in the order in which help shows them.
var commands = []command{
	{"run", "start a program as several ranks on this machine", runCommand},
	{"info", "print the ranks, their nodes, and how they reach each other", infoCommand},
	{"plan", "show the steps of a collective, and compare its algorithms", planCommand},
	{"version", "print the version of this program", versionCommand},
}

// guardCommand is a subcommand that help does not show: weft run starts itself with it.
const guardCommand = "guard-ranks"

// Exit statuses of the command itself.
const (
	statusFailure = 1
	statusUsage   = 2
)

func main() {
	os.Exit(weft(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// weft runs one subcommand.
func weft(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return statusUsage
	}
	switch name := args[0]; name {
	case "help", "-h", "-help", "--help":
		return help(args[1:], stdout, stderr)
	case guardCommand:
		launch.Guard(stdin)
		return 0
	default:
		if c := find(name); c != nil {
			return c.run(args[1:], stdin, stdout, stderr)
		}
		fmt.Fprintf(stderr, "weft: unknown command %q\n", name)
		usage(stderr)
		return statusUsage
	}
}

// help prints the usage of one command, or the list of commands.
func help(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stdout)
		return 0
	}
	c := find(args[0])
	if c == nil {
		fmt.Fprintf(stderr, "weft help: unknown command %q\n", args[0])
		return statusUsage
	}
	return c.run([]string{"-help"}, nil, stdout, stderr)
}

func find(name string) *command {
	for i := range commands {
		if commands[i].name == name {
			return &commands[i]
		}
	}
	return nil
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: weft COMMAND [arguments]\n\nCommands:\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands {
		fmt.Fprintf(tw, "  %s\t%s\n", c.name, c.summary)
	}
	_ = tw.Flush()
	fmt.Fprint(w, "\nweft help COMMAND tells more.\n")
}
