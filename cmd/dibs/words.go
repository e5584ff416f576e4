package main

import (
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/words"
)

// The command words counts, times and texts as package words does.
var (
	count     = words.Count
	plural    = words.Plural
	verb      = words.Verb
	roughly   = words.Roughly
	since     = words.Since
	oneLine   = words.OneLine
	printable = words.Printable
	shellWord = words.ShellWord
	command   = words.Command
	due       = holdups.Due
	heldText  = holdups.Held
	readWhy   = holdups.Read
)
