// Package nccltest lets tests run against a stand-in for NCCL, on machines that have none.
package nccltest
