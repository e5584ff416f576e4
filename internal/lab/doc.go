// Package lab starts, stops and kills the processes with which dibs is tried: those of torture and
// its demo, of bench, and of tests. The folders below it hold what they do, what they record and
// how that is judged. All of it only proves. Of what ships, only the commands demo, torture and bench
// import it, as they run it.
package lab
