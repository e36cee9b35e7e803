// Package mapped has what transports over mapped memory have in common: words
// that several ranks change, doorbells, memory aligned as counters need it, and
// anonymous shared memory that is sealed against resizing. It knows nothing of
// endpoints.
package mapped
