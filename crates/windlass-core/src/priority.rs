//! Priorities and their classes.

/// 0–255, higher first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

impl Default for Priority {
    fn default() -> Self {
        Self(100)
    }
}

/// The coarse name of a priority, used as a metrics label and as input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Critical,
    High,
    Normal,
    Low,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Critical, Class::High, Class::Normal, Class::Low];

    pub fn as_str(self) -> &'static str {
        match self {
            Class::Critical => "critical",
            Class::High => "high",
            Class::Normal => "normal",
            Class::Low => "low",
        }
    }

    /// The number that the class name stands for on input.
    pub fn priority(self) -> Priority {
        Priority(match self {
            Class::Critical => 250,
            Class::High => 200,
            Class::Normal => 100,
            Class::Low => 50,
        })
    }

    pub fn parse(text: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.as_str() == text)
    }
}

impl Priority {
    pub fn class(self) -> Class {
        match self.0 {
            225..=255 => Class::Critical,
            200..=224 => Class::High,
            100..=199 => Class::Normal,
            0..=99 => Class::Low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_name_stands_for_a_number_of_its_class() {
        for class in Class::ALL {
            assert_eq!(class.priority().class(), class);
            assert_eq!(Class::parse(class.as_str()), Some(class));
        }
        assert_eq!(Class::parse("urgent"), None);
    }
}
