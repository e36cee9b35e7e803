// What lies where: the arguments of the kernels, the segment of each rank, which
// all ranks map, and the page that a rank shares with its host. layout.go is the
// same in Go; layout.cu puts the offsets into the compiled form, where a test
// compares them.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr u32 maxRanks = 72;
constexpr u32 maxBuffers = 256; // registered buffers of a communicator
constexpr u32 threads = 512;    // of every block

constexpr u32 smallBytes = threads * 8;    // data of one lane of an inline message
constexpr u32 stageBytes = 128 << 10;      // one of the two stages of a lane
constexpr u32 helloWords = 8;              // words that ranks tell each other as a call begins
constexpr u32 mailLanes = 4;               // blocks that share a message
constexpr u32 mailSlots = 2;               // chunks that are under way in a mail lane
constexpr u32 mailSlotBytes = 64 << 10;    // of a chunk
constexpr u32 sliceBytes = 128;            // lanes and parts begin at multiples of it

// Values of kernels.Op and comm.Collective.
enum Op : u32 { opSum, opProd, opMin, opMax, opAvg };
enum Collective : u32 {
	allReduce = 1, reduce = 2, broadcast = 3, allGather = 4, allToAll = 5, barrier = 6,
	reduceScatterBlock = 8
};

// Words are what a thread holds of a vector.
template <int N> struct Words { u32 w[N]; };

// Packet carries 8 bytes. Aligned 8 bytes do not tear, 16 may, so that each half
// has the flag. A flag of 0 is no packet.
struct alignas(16) Packet { u32 low, flag, high, flagAgain; };

// Lane is what one block has with the same block of the other ranks: its own
// numbers, and nothing in common with other lanes. Behind it lie Arrived[ranks],
// Packet hello[2][ranks][helloWords], by the parity of the call, and u8 stage[2][stageBytes].
struct Lane {
	u64 calls; // that this lane was in
	u64 steps; // that it has signalled
	u8 unused[112];
};

// Arrived is how many steps a peer has signalled in a lane; written by it.
struct Arrived { u64 step; u8 unused[120]; };

// Mail is what one block has for messages from and to one peer. Behind it lie
// u8 slots[mailSlots][mailSlotBytes], which the peer fills.
struct Mail {
	u64 sent;       // chunks sent to the peer
	u64 taken;      // chunks taken from it
	u64 takenBytes; // their bytes
	u8 unused0[104];
	u64 credit; // chunks sent to the peer that it has taken; written by it
	u8 unused1[120];
	u64 counted; // bytes that the peer has put into slots; added up by it
	u8 unused2[120];
	Packet header[mailSlots]; // written by the peer
	u8 unused3[96];
};

// Segment is the beginning of a rank's segment. Behind it lie the lanes, then
// Mail[ranks][mailLanes], each with its slots, and then, for as many lanes as small calls
// have with so many ranks, Packet[2][ranks][threads], by the parity of the lane's call. All of
// it is zero at first.
struct Segment {
	u64 poison; // peer << 32 | reason << 16 | 1 + rank of a rank that failed; written by it
	u8 unused0[120];
	u64 failed; // 1: a kernel of this rank failed; all later ones end at once
	u8 unused1[3960];
	u64 buffers[maxRanks][maxBuffers]; // where this rank maps each rank's buffers, by number − 1
};

// Why a kernel failed, and what it waited for.
enum Reason : u32 { reasonTimeout = 1, reasonAbort, reasonPoison, reasonMismatch };
enum Awaited : u32 { awaitPacket = 1, awaitHello, awaitStep, awaitCredit, awaitHeader, awaitCounter };

// Record tells the host of the first failure.
struct Record {
	u64 written; // 1: the rest is there
	u32 reason, rank, peer, collective;
	u64 seq;   // the host's number of the call
	u64 epoch; // calls of the lane, chunks of a message
	u64 step;
	u32 lane, awaited;
	u64 want, seen; // of reasonPoison, want is the poison
};

// Page is in the host's memory, which the device reaches too.
struct Page {
	u64 abort; // not 0: end all kernels. Written by the host.
	u8 unused[56];
	Record record;
};

enum Flag : u32 { inPlace = 1 }; // src and dst overlap

// Args are those of all kernels.
struct Args {
	u64 segment[maxRanks]; // of each rank, where this one maps it
	u64 page;
	u64 dst, src;
	u64 dstOffset, srcOffset; // in their buffers
	u64 count;                // elements of a block
	u64 timeoutNs;            // for a single wait
	u64 seq;
	u32 dstBuffer, srcBuffer; // numbers of registered buffers; 0: others can't reach it
	u32 rank, ranks;
	u32 lanes; // that segments have; a kernel may use fewer
	u32 collective, op, root;
	u32 hash; // of what all ranks must agree on
	u32 flags;
	u32 to, from; // of messages; maxRanks: none
};

// Blocks say what moves between this rank and each of the others, in bytes.
struct Blocks {
	u64 sendAt[maxRanks], sendBytes[maxRanks], recvAt[maxRanks], recvBytes[maxRanks];
};
static_assert(sizeof(Args) + sizeof(Blocks) <= 4096, "what the parameters of a kernel may take");
