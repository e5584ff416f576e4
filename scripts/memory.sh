# To be sourced. Files of tests in memory, if there is enough and programs can run there, as Go builds its own in the
# same place: SQLite waits for the disk most of its time. This
# loses nothing that a disk would keep, since no test crashes the machine. Then compilers and tests may also
# collect garbage a quarter as often, which saves the processors work.
trial=/dev/shm/dibs-trial.$$
if [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')" -gt 12000000 ] 2>/dev/null && echo : 2>/dev/null >"$trial" && chmod +x "$trial" && "$trial" 2>/dev/null; then
	export TMPDIR=/dev/shm GOGC=400 # not GOTMPDIR, in which testing.T.TempDir would be
	unset GOTMPDIR
fi
rm -f "$trial"
