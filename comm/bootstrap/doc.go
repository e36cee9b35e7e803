// Package bootstrap brings the ranks of a job together and keeps an
// out-of-band control channel open between them.
package bootstrap
