# To be sourced. Files of tests in memory, if there is enough: SQLite waits for the disk most of its time. This
# loses nothing that a disk would keep, since no test crashes the machine. Then compilers and tests may also
# collect garbage a quarter as often, which saves the processors work.
if [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')" -gt 8000000 ] 2>/dev/null; then export TMPDIR=/dev/shm GOTMPDIR=/tmp GOGC=400; fi
