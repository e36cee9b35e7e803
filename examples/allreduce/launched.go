package main

import "github.com/weft-go/weft/comm"

// launched reports whether a launcher started the only rank there is.
func launched(c *comm.Communicator) bool { return c.Source() != "single" }
