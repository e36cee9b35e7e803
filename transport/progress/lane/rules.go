package lane

// A rule is one of those that make a retry safe. Each has a name here so that tests
// can take it out of the code and show what goes wrong without it.
type rule uint64

const (
	// repeatPlain: what was counted is sent again uncounted.
	repeatPlain rule = 1 << iota
	// headerLast: a header is raised when the message's puts are clean.
	headerLast
	// quarantine: a cell with a reported phase carries no other message.
	quarantine
	// quarantineSlot: not even by plain puts.
	quarantineSlot
	// quarantineLeft: the same for a cell whose phase was left under way.
	quarantineLeft
	// awaitCredit: a cell is used again when its message was released,
	awaitCredit
	// awaitAll: by every receiver,
	awaitAll
	// awaitOwn: and the sender's own phases on it have ended.
	awaitOwn
	// freshOffsets: what takes a dirty cell's place was never used.
	freshOffsets
	// finishFirst: a message is sent when its phases have ended.
	finishFirst
	// holdSource: abandoned phases count as well, unless the message was released.
	holdSource
	// ownCounter: each cell has a counter for itself.
	ownCounter
	// ownHeader: each cell has a header for itself.
	ownHeader
	// headerEqual: a header is for the epoch that it names and no other.
	headerEqual
	// targetAll: a counter's target includes epochs that came another way.
	targetAll
	// emptyByHeader: a message of no bytes is there when its header is.
	emptyByHeader
	// behindLast: what takes a dirty cell's place begins behind its last message.
	behindLast
	// boardQuarantine: a cell of a board with a reported put carries no other posting,
	boardQuarantine
	// boardLeft: nor one whose put was left under way.
	boardLeft
	// boardFresh: what takes a dirty one's place was never used.
	boardFresh
	// boardClean: a posting is told of when its puts are clean.
	boardClean
	// boardSource: and its source changes when those that were given up have ended.
	boardSource
	// boardTold: a posting is read where its owner said that it is.
	boardTold
	// boardNumber: one that went another way is the one of the number that was told.
	boardNumber
	// boardLow: an owner tells that new memory is needed.
	boardLow
	// growOnly: words are raised, not put.
	growOnly
	// reissue: a reported word is raised again.
	reissue
	// settle: a rank goes on when its own word is clean.
	settle
	// retireZones: a landing zone with a reported pull is not used again.
	retireZones
	// releaseAll: a source changes when all its readers have released it.
	releaseAll
	// firstWins: the first failure that was registered is everybody's.
	firstWins
	// voteFirst: with commit, nobody returns before all have voted.
	voteFirst
	// awaitHeld: nobody returns a failure before all hold it,
	awaitHeld
	// askFirst: a registrar that takes over asks first what others hold,
	askFirst
	// promise: and who has answered takes nothing from those before it.
	promise
	// tellRefused: a registrar from whom nothing is taken any more is told.
	tellRefused
	// tellOut: ranks tell each other who is out,
	tellOut
	// stayOut: and one that hears that it is itself stays so.
	stayOut
)

var ruleNames = map[rule]string{
	repeatPlain: "repeatPlain", headerLast: "headerLast", quarantine: "quarantine", quarantineSlot: "quarantineSlot",
	quarantineLeft: "quarantineLeft", awaitCredit: "awaitCredit", awaitAll: "awaitAll", awaitOwn: "awaitOwn",
	boardQuarantine: "boardQuarantine", boardLeft: "boardLeft", boardFresh: "boardFresh", boardClean: "boardClean",
	boardSource: "boardSource", boardTold: "boardTold", boardNumber: "boardNumber", boardLow: "boardLow",
	freshOffsets: "freshOffsets", finishFirst: "finishFirst", holdSource: "holdSource",
	ownCounter: "ownCounter", ownHeader: "ownHeader", headerEqual: "headerEqual", targetAll: "targetAll",
	emptyByHeader: "emptyByHeader", behindLast: "behindLast", growOnly: "growOnly", reissue: "reissue", settle: "settle", retireZones: "retireZones",
	releaseAll: "releaseAll", firstWins: "firstWins", voteFirst: "voteFirst",
	awaitHeld: "awaitHeld", askFirst: "askFirst", promise: "promise", tellRefused: "tellRefused", tellOut: "tellOut", stayOut: "stayOut",
}

func (r rule) String() string { return ruleNames[r] }

// A switchboard says which rules are off. Only tests turn any off.
type switchboard rule

func (s switchboard) on(r rule) bool { return rule(s)&r == 0 }
