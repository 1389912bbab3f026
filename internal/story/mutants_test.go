package story

// The broken models: each leaves out or bends one rule.
const (
	unbroken mutation = iota
	noHistory
	reusable
	foundValue
	noRewinds
	firstParent
	firstParentReach
	deletes
	everlasting
	anyRef
	olderThanRecord
	notHeld
	singleSteps
	emptyParents
	bounces
)
