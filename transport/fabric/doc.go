// Package fabric is the transport over logical endpoints.
package fabric
