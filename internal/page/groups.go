package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
)

type groupsView struct {
	Queue  dibs.Queue
	Groups []dibs.Group
	More   int // how many groups are left out
	Admin  bool
	Fields []groupField
	Group  string // group whose settings are in the form

	Backlogs []backlogRow
	Next     string // link to the next backlogs
	First    string // link to the first backlogs, if the page shows later ones
}

// backlogRow is a group with blocked jobs.
type backlogRow struct {
	admin.Backlog
	Settings dibs.Group
	Limit    int
}

// maxGroups is how many groups the page lists.
const maxGroups = 500

// groups shows the groups of a queue that have blocked jobs or settings of their own, and a form that changes these.
func (p *Page) groups(r *request) (any, error) {
	name := r.URL.Query().Get("queue")
	if err := r.mayRead(name); err != nil {
		return nil, err
	}
	var q dibs.Queue
	var list []dibs.Group
	var backlogs []admin.Backlog
	after := r.URL.Query().Get("after")
	err := p.Look(r.Request, func() (err error) {
		if q, err = p.queueNow(r, name); err != nil {
			return err
		}
		if list, err = p.DB.Groups(r.Context(), name); err != nil {
			return err
		}
		backlogs, err = p.DB.Backlogs(r.Context(), name, after)
		return err
	})
	if err != nil {
		return nil, err
	}
	v := groupsView{Queue: q, Admin: r.who.Changes(name), Group: r.URL.Query().Get("group")}
	v.Fields = groupFieldsOf(checks.GroupOf(list, v.Group))
	own := make(map[string]dibs.Group, len(list))
	for _, g := range list {
		own[g.Name] = g
	}
	for _, b := range backlogs {
		settings := own[b.Group]
		v.Backlogs = append(v.Backlogs, backlogRow{b, settings, cmp.Or(settings.Limit, q.GroupLimit)})
	}
	if after != "" {
		v.First = "?queue=" + url.QueryEscape(name)
	}
	if len(backlogs) == admin.MaxBacklogs {
		v.Next = "?queue=" + url.QueryEscape(name) + "&after=" + url.QueryEscape(backlogs[len(backlogs)-1].Group)
	}
	list = slices.DeleteFunc(list, func(g dibs.Group) bool { return g.Limit == 0 && g.Rate.N == 0 }) // groups without settings are only listed because they are held up
	v.More = max(0, len(list)-maxGroups)
	v.Groups = list[:len(list)-v.More]
	return v, nil
}

// groupField is one setting of a group in a form.
type groupField struct{ Name, Label, Help, Value string }

func groupFieldsOf(g dibs.Group) []groupField {
	return []groupField{
		{"limit", "Jobs at once", "of the group; 0: as many as the queue says", strconv.Itoa(g.Limit)},
		{"rate", "Rate of starts", "such as 100/min or 10/90s, over all workers; 0: as the queue says", wire.FormatRate(dibs.Rate{N: g.Rate.N, Per: g.Rate.Per})},
		{"burst", "Burst", "starts that may have been saved up, beyond the rate", strconv.Itoa(g.Rate.Burst)},
	}
}

// changeGroup shows what a form would change of a group. When the change is confirmed, it is made.
func (p *Page) changeGroup(r *request) (to, done string, err error) {
	queue, name := r.PathValue("queue"), r.PostFormValue("group")
	if err := r.mayChange(queue); err != nil {
		return "", "", err
	}
	if _, err := p.queueNow(r, queue); err != nil {
		return "", "", err
	}
	if name == "" {
		return "", "", &dibs.InvalidError{Field: "group", Reason: "must be given"}
	}
	v := settingsView{Queue: queue, Group: name, Back: "/groups?queue=" + url.QueryEscape(queue)}
	fill := func(g *dibs.Group) (err error) {
		v.Changes, err = fillGroup(r, g)
		return err
	}
	sure := r.PostFormValue("sure") != ""
	if sure {
		err = p.DB.ChangeGroup(r.Context(), queue, name, fill)
	} else {
		var list []dibs.Group
		if list, err = p.DB.Groups(r.Context(), queue); err == nil {
			_, err = checks.ChangedGroup(checks.GroupOf(list, name), fill)
		}
	}
	switch {
	case err != nil:
		return "", "", err
	case len(v.Changes) == 0:
		return v.Back, "Nothing to change.", nil
	case !sure:
		p.write(r, http.StatusOK, "settings", v)
		return answered, "", nil
	}
	p.audit(r, "change", len(v.Changes), "group "+name+" of queue "+queue+": "+listed(v.Changes))
	return v.Back, "Changed " + plural(len(v.Changes), "setting") + " of the group " + oneLine(name) + ".", nil
}

// fillGroup sets the fields of a group that a form has, and lists what differs.
func fillGroup(r *request, g *dibs.Group) (changes []difference, err error) {
	before, rate := groupFieldsOf(*g), g.Rate
	if *g, err = groupOf(r, *g); err == nil {
		err = withoutRate("burst", rate, &g.Rate)
	}
	if err != nil {
		return nil, err
	}
	after := groupFieldsOf(*g)
	for i, f := range before {
		if f.Value == after[i].Value {
			continue
		}
		if err := unchangedSince(r, f.Name, f.Label, f.Value); err != nil {
			return nil, err
		}
		changes = append(changes, difference{f.Name, f.Label, f.Value, after[i].Value})
	}
	return changes, nil
}

// groupOf returns a group with the values of a form.
func groupOf(r *request, g dibs.Group) (dibs.Group, error) {
	for name, n := range map[string]*int{"limit": &g.Limit, "burst": &g.Rate.Burst} {
		if text := strings.TrimSpace(r.PostFormValue(name)); text != "" {
			var err error
			if *n, err = strconv.Atoi(text); err != nil {
				return g, &dibs.InvalidError{Field: name, Reason: "must be a whole number"}
			}
		}
	}
	if text := strings.TrimSpace(r.PostFormValue("rate")); text != "" {
		rate, err := wire.ParseRate(text)
		if err != nil {
			return g, &dibs.InvalidError{Field: "rate", Reason: err.Error()}
		}
		g.Rate.N, g.Rate.Per = rate.N, rate.Per
	}
	return g, nil
}

// withoutRate removes the burst if the rate was removed, and refuses a burst without a rate.
func withoutRate(field string, old dibs.Rate, rate *dibs.Rate) error {
	if rate.N != 0 {
		return nil
	}
	if rate.Burst != 0 && rate.Burst != old.Burst {
		return &dibs.InvalidError{Field: field, Reason: "needs a rate; without one there is no limit"}
	}
	*rate = dibs.Rate{}
	return nil
}
