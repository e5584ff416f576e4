// Package advice helps people to adopt a table. [Propose] makes a mapping for it, [Check] reports how
// safe a mapping is and what is wrong with it, [SQL] shows the statements that a store runs, and [Try]
// claims rows as a worker does. [Stuck], [Full] and [Refused] say why rows of an open store are not claimed,
// and [Ended] which rows have ended as dead. None of them changes anything: what they try is rolled back.
// Workers do not need this package.
package advice
