//! Types and keys by number.

use super::Flow;
use super::control::{Control, Key, Kind, Target};
use super::limit::Scope;
use crate::ids::Name;

impl Flow {
    pub(super) fn add_kind(&mut self, name: &Name) -> u32 {
        if let Some(number) = self.kind_numbers.get(name) {
            return *number;
        }
        let number = self.kinds.len() as u32;
        self.kind_numbers.insert(name.clone(), number);
        self.kinds.push(Kind {
            name: name.clone(),
            control: Control::default(),
            lanes: Vec::new(),
            changed: false,
        });
        number
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
        }
    }
}
