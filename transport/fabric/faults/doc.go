// Package faults decides which phases of a fabric fail, and how. It is the fault
// plans of transport/fabric, and of the emulation on GPUs: a [Decider] is asked
// once per phase and answers with a [Fault]; the fabric's engine does the rest.
// This page is the definition of the grammar and of the decision, for all who
// implement them.
//
// # Phases and links
//
// A phase is what the report of a completion speaks of: the operations of one
// completion between two reports, to one target. A fault always concerns a whole
// phase. A link is the pair of the rank that starts the phase and its target,
// written 0>1. The multicast endpoints that a rank uses are one target more,
// written m: 0>m is a link of its own, and a fault on 0>1 leaves it alone. Phases
// are numbered per link, from 0, in the order in which the rank starts them;
// a phase that is tried again is a new phase. A rank may have several ids for one
// endpoint of the target. They are its aliases, numbered from 0 in the order in which
// it made them; they share the link and its numbers. A phase's alias is that of its
// first operation.
//
// # Grammar
//
//	plan   = [ field { "," field } ] .
//	field  = "seed" "=" number | "rate" "=" decimal | "kinds" "=" kind { "+" kind }
//	       | "ops" "=" op { "+" op } | "links" "=" link { ";" link }
//	       | "from" "=" number | "to" "=" number | "burst" "=" number
//	       | "dead" "=" dead { ";" dead } .
//	dead   = link [ "/" alias ] "@" number .
//	kind   = "drop" | "ack" | "part" | "late" .
//	op     = "put" | "counted" | "get" | "pullred" | "red" | "atom" .
//	link   = ( rank | "*" ) ">" ( rank | "m" | "*" ) .
//	alias  = number .
//
// as in
//
//	seed=7,rate=0.01,kinds=drop+ack+part+late,ops=put+counted,links=0>1;2>*,from=100,to=900,burst=5,dead=0>1@500
//
// Each field stands at most once, in any order, and none must; there are no
// spaces. Numbers are decimal digits, below 2⁶⁴; ranks are numbers below 2³¹, aliases
// below 2³¹−1; a
// decimal is a number in C's decimal notation, such as 0.01 or 1e-4, and stands
// for the nearest double. An element that stands twice in a list counts once. The
// empty plan injects nothing.
//
//	field  default     meaning
//	seed   0           what all decisions are drawn from
//	rate   0           0…1: the probability that a fault begins at a phase
//	kinds  all         the kinds that are drawn from, each with the same probability
//	ops    all         only phases that hold at least one such operation
//	links  all         only phases on a link that one of these matches; * matches
//	                   every rank, as a target also m
//	from   0           only phases with this number or a later one
//	to     no bound    only phases with a smaller number; above from
//	burst  1           1…4096: a fault that begins at phase j hits phases
//	                   j…j+burst−1 of the link, each with a kind of its own
//	dead   none        from that phase on, the matching links are dead; with an alias,
//	                   for the phases that go by it only: 0>1/0@500 leaves alias 1 alone
//
// kinds, ops, links, from and to bound what is drawn; dead links are dead
// whatever the other fields say. Bursts that overlap hit a phase once, so of
// the eligible phases a share of 1−(1−rate)^burst is hit. The phases of a burst
// that hold no operation of ops pass.
//
// The names of operations stand for
//
//	put      put, put masked, put-multimem
//	counted  counted put, counted put-multimem, counted red
//	get      get
//	pullred  pullred
//	red      red, counted red, red-multimem
//	atom     atom
//
// A counted red is hit by plans that name counted and by plans that name red.
//
// # Kinds
//
// Every fault is reported: the phase's report says that it failed. What is
// executed differs.
//
//	drop  nothing
//	ack   everything
//	part  some pieces, not all: the others never
//	late  some pieces, perhaps none, before the report; each of the others, at
//	      least one, a number of engine steps later that has no bound, so also
//	      during a later call, or after other operations on the same bytes
//	dead  nothing, in this phase and in all later ones on the link
//
// A piece is what the engine executes at once. A phase of one piece can't be
// executed in part; part then executes it or does not.
//
// # Decision
//
// Whether and how phase k of link a>b is hit is a function of the plan, a, b, k,
// the set of the phase's operations and, where the link is dead by one alias, its
// alias. It depends on nothing else: not on time,
// nor on other links, nor on the order of the questions. So a run whose phases
// are the same meets the same faults, and a [Foreseer] knows most of the phases that
// pass before they begin.
//
// All arithmetic is on 64-bit words, modulo 2⁶⁴. S(x, i) is output i, counted
// from 0, of the generator SplitMix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, OOPSLA 2014) seeded with x:
//
//	z = x + (i+1)·0x9e3779b97f4a7c15
//	z = (z ^ z>>30) · 0xbf58476d1ce4e5b9
//	z = (z ^ z>>27) · 0x94d049bb133111eb
//	S(x, i) = z ^ z>>31
//
// With m = −2, the phase's key is
//
//	P(k) = S(S(S(S(seed, 0) ^ a, 0) ^ b, 0) ^ k, 0)
//
// and a fault begins at phase j, from ≤ j < to, if (S(P(j), 0)>>11) · 2⁻⁵³ < rate.
// Of the n kinds of the plan, in the order above and counted from 0, phase k of
// a burst gets number ⌊S(P(k), 1)·n / 2⁶⁴⌋. S(P(k), 2) is the fault's own seed f.
// A phase on a dead link gets that seed too.
//
// Of the N pieces of a phase, in the order of its operations and of their bytes
// and counted from 0, let u = ⌊S(f, 0)·N / 2⁶⁴⌋ and, for N > 1,
// v = (u + 1 + ⌊S(f, 1)·(N−1) / 2⁶⁴⌋) mod N. Under part, piece u is executed and
// piece v is not; under late, piece u is late. Any other piece i is executed before
// the report if S(f, 3+2i) < S(f, 2); so is the only piece of a phase under part.
// A late piece is executed ⌊1/x²⌋ steps later, x = ((S(f, 4+2i)>>11) + 1) · 2⁻⁵³ in
// double precision, and no more than 2⁶⁴−2. Half of the late pieces come within 3
// steps, one in a hundred takes 10,000 or more, one in a thousand 1,000,000 or more.
//
// # Logs
//
// A [Recorder] counts the faults that pass through it and hands each to a sink as
// a [Record]; [Log] writes records as lines of JSON:
//
//	{"link":"0>1","phase":17,"ops":["counted put"],"kind":"late","seed":"8717895732742165505"}
//
// There is at least one operation. The seed is the fault's own, from which its
// pieces follow. [ReadLog] reads such lines, also those of several ranks one after the other, and a [Replay] of them
// injects these faults and no others, without a plan: a log can be cut down to
// the lines that matter. A link that was dead is dead in a replay for the phases
// that the log has, by whichever alias.
package faults
