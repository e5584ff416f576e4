// Package advice helps people to adopt a table. [Propose] makes a mapping for it, [Check] says what
// a mapping is worth and what is wrong with it, [SQL] shows what a store runs by it, and [Try] makes
// a claim as a worker would. [Stuck] looks at a store that is open. None of them changes anything:
// what they try is rolled back. No worker needs this package.
package advice
