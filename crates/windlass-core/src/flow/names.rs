//! Types, keys and queues to come by number.

use std::collections::BTreeSet;

use super::Flow;
use super::control::{Control, Key, Kind, Target};
use super::limit::Scope;
use crate::ids::Name;

impl Flow {
    pub(super) fn add_kind(&mut self, name: &Name) -> u32 {
        if let Some(number) = self.kind_numbers.get(name) {
            return *number;
        }
        let kind = Kind {
            name: name.clone(),
            control: Control::default(),
            lanes: BTreeSet::new(),
            lane_count: 0,
            changed: false,
        };
        let number = self.kinds.add(kind);
        self.kind_numbers.insert(name.clone(), number);
        number
    }

    /// Drops a type that has neither lanes nor a limit.
    pub(super) fn forget_kind(&mut self, number: u32) {
        let kind = &self.kinds[number as usize];
        if kind.lane_count > 0 || kind.control.gate.is_some() {
            return;
        }
        self.kind_numbers.remove(&kind.name);
        let dropped = self.kinds.remove(number).filter(|kind| kind.changed && !self.transient);
        self.changed.dropped_kinds.extend(dropped.map(|kind| kind.name));
    }

    /// What a limit is attached to, made if need be.
    pub(super) fn target(&mut self, scope: Scope, name: &Name) -> Target {
        match scope {
            Scope::Queue => match self.queue_numbers.get(name) {
                Some(number) => Target::Queue(*number),
                None => Target::Absent(self.add_absent(name)),
            },
            Scope::Type => Target::Kind(self.add_kind(name)),
            Scope::Key => Target::Key(self.add_key(name)),
        }
    }

    fn add_absent(&mut self, name: &Name) -> u32 {
        if let Some(Target::Absent(number)) = self.limits.get(&(Scope::Queue, name.clone())) {
            return *number;
        }
        let number = self.absents.keys().next_back().map_or(0, |last| last + 1);
        self.absents.insert(number, (name.clone(), Control::default()));
        number
    }

    pub(super) fn forget_absent(&mut self, number: u32) {
        self.absents.remove(&number);
    }

    /// The limit of a queue that came to be goes over to it.
    pub(super) fn adopt(&mut self, queue: u32, name: &Name) {
        let Some(target) = self.limits.get_mut(&(Scope::Queue, name.clone())) else { return };
        let Target::Absent(number) = *target else { return };
        *target = Target::Queue(queue);
        if let Some((_, control)) = self.absents.remove(&number) {
            // Nothing has started under it, so it has no alarm.
            self.lines[queue as usize].control = control;
        }
    }

    pub(super) fn absent(&self, number: u32) -> &(Name, Control) {
        self.absents.get(&number).expect("a queue to come is named only while it has a limit")
    }

    pub(super) fn absent_mut(&mut self, number: u32) -> &mut (Name, Control) {
        self.absents.get_mut(&number).expect("a queue to come is named only while it has a limit")
    }

    pub(super) fn add_key(&mut self, name: &Name) -> u32 {
        if let Some(number) = self.key_numbers.get(name) {
            return *number;
        }
        let key = Key { name: name.clone(), control: Control::default(), shares: Vec::new() };
        let number = match self.free_keys.pop() {
            Some(number) => {
                self.keys[number as usize] = Some(key);
                number
            }
            None => {
                self.keys.push(Some(key));
                self.keys.len() as u32 - 1
            }
        };
        self.key_numbers.insert(name.clone(), number);
        number
    }

    /// Forgets a key that has neither live tasks nor a limit.
    pub(super) fn forget_key(&mut self, number: u32) {
        let key = self.key(number);
        if !key.shares.is_empty() || key.control.gate.is_some() {
            return;
        }
        let name = key.name.clone();
        self.key_numbers.remove(&name);
        self.keys[number as usize] = None;
        self.free_keys.push(number);
    }

    pub(super) fn key(&self, number: u32) -> &Key {
        self.keys[number as usize].as_ref().expect("a key is named only while it has tasks or a limit")
    }

    pub(super) fn key_mut(&mut self, number: u32) -> &mut Key {
        self.keys[number as usize].as_mut().expect("a key is named only while it has tasks or a limit")
    }

    /// How the limit of a target is known.
    pub(super) fn name_of(&self, target: Target) -> (Scope, Name) {
        match target {
            Target::Queue(number) => (Scope::Queue, self.lines[number as usize].name.clone()),
            Target::Kind(number) => (Scope::Type, self.kinds[number as usize].name.clone()),
            Target::Key(number) => (Scope::Key, self.key(number).name.clone()),
            Target::Absent(number) => (Scope::Queue, self.absent(number).0.clone()),
        }
    }
}
