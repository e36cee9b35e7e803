// Package device is memory of GPUs that the ranks of one node map: each rank has
// a [Device], allocates memory there or adopts another library's, and imports
// what its peers export.
//
// How memory is shared depends on where the ranks are and where it comes from:
//
//   - Between processes, memory from [Device.Alloc] goes as a descriptor, over a
//     channel that passes descriptors; so does another library's, if it was made for
//     that (cuMemCreate with POSIX handles).
//   - Between processes, memory from cudaMalloc goes as a handle of CUDA's IPC.
//   - In one process there is one address for all: devices are given access.
//
// Memory from Alloc lives until all who have it have released it, in whatever
// order they do, and whether or not some of them die. Another library's memory is
// that library's to free, once the ranks that import it have released it.
//
// What a peer exports is checked before it is used. Whoever holds a descriptor or a
// handle can write to the memory: they are for ranks of the job alone.
package device
