// Package cudatest lets tests run against a stand-in for the CUDA driver, on
// machines that have none.
package cudatest
