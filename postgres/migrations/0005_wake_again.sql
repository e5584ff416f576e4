-- Groups that are admitted again only because another transaction had locked a blocked job of theirs.
-- Compatible with programs that know version 1.

-- Their other jobs keep the places that they were given, so claims do not wait for the next admission.
alter table dibs.wake add column again boolean not null default false;
