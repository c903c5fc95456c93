//! Recorded figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use super::time::Time;

/// Series over some time, one figure per step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RangeBody {
    pub step_seconds: u64,
    /// Where the first step begins.
    pub from: Time,
    /// Where the last step ends.
    pub to: Time,
    /// The queue, if it is about a single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// By name; `null` where nothing was recorded.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, Vec<Option<f64>>>))]
    pub series: BTreeMap<String, Vec<Option<Figure>>>,
}

/// Written as short as it can be: whole numbers without a point.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Figure(pub f32);

impl Figure {
    /// `None` for what is no number.
    pub fn new(figure: f32) -> Option<Figure> {
        figure.is_finite().then_some(Figure(figure))
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0.abs() < 1e18 {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f32(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_short() {
        let figures = [0.1, 3.0, 1e30, f32::NAN].map(Figure::new);
        assert_eq!(serde_json::to_string(&figures).unwrap(), "[0.1,3,1e+30,null]");
        let read: [Option<Figure>; 2] = serde_json::from_str("[2,null]").unwrap();
        assert_eq!(read, [Some(Figure(2.0)), None]);
    }
}
