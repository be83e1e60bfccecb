//! Weight of a term in a document, by BM25F.
//!
//! A field contributes its count times its weight, divided by how much longer than usual it is; the sum of all fields is
//! saturated once, `tf / (tf + k1)`. A word of a name then counts like several in a body, but a document with all words of a
//! query in its body beats one with a single word in its description: saturating each field on its own had the
//! opposite effect in skills of some length. Lengths are compared with fixed averages instead of those of the corpus: the
//! weight then depends on the document alone, can be stored with the posting, and tells a caller nothing about documents of
//! others.

use crate::document::SearchField;

/// Sum of weighted counts at which half of the largest weight is reached.
const SATURATION: f32 = 1.5;

/// Parameters of a field.
struct FieldWeight {
    /// Weight of one occurrence, in a field of average length.
    weight: f32,
    /// Average length in terms.
    average: f32,
    /// Influence of the length, from 0 to 1.
    length_influence: f32,
}

const fn field_weight(field: SearchField) -> FieldWeight {
    let (weight, average, length_influence) = match field {
        SearchField::Id => (4.0, 3.0, 0.5),
        SearchField::Name => (2.0, 3.0, 0.5),
        SearchField::Title => (3.0, 4.0, 0.4),
        SearchField::Tags => (2.5, 8.0, 0.2),
        SearchField::Description => (3.0, 30.0, 0.4),
        SearchField::Headings => (1.5, 40.0, 0.5),
        SearchField::Body => (1.0, 600.0, 0.5),
        SearchField::Files | SearchField::Parameters => (1.0, 8.0, 0.3),
    };
    FieldWeight { weight, average, length_influence }
}

const FIELDS: [SearchField; SearchField::COUNT] = [
    SearchField::Id,
    SearchField::Name,
    SearchField::Title,
    SearchField::Tags,
    SearchField::Description,
    SearchField::Headings,
    SearchField::Body,
    SearchField::Files,
    SearchField::Parameters,
];

/// Limit of the weight of a term that occurs ever more often.
const MAX_WEIGHT: f32 = 2.0;

/// Occurrences of a term by field.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FieldCounts([f32; SearchField::COUNT]);

impl FieldCounts {
    pub(crate) fn add(&mut self, field: SearchField, amount: f32) {
        self.0[field as usize] += amount;
    }

    /// Returns the weight in a document whose fields have these lengths, from 0 to [`MAX_WEIGHT`].
    pub(crate) fn weight(&self, lengths: &[f32; SearchField::COUNT]) -> f32 {
        let weighted = |field: SearchField| {
            let FieldWeight { weight, average, length_influence } = field_weight(field);
            let relative = lengths[field as usize] / average;
            weight * self.0[field as usize] / (1.0 - length_influence + length_influence * relative)
        };
        let count: f32 = FIELDS.into_iter().map(weighted).sum();
        MAX_WEIGHT * count / (count + SATURATION)
    }
}

/// Quantizes a weight to a byte that is not 0. The square root keeps small weights apart.
#[must_use]
pub(crate) fn quantize(weight: f32) -> u8 {
    let scaled = (weight / MAX_WEIGHT).clamp(0.0, 1.0).sqrt() * 255.0;
    (scaled.round() as u8).max(1)
}

/// Returns the weight of a quantized byte.
#[must_use]
pub(crate) fn dequantize(byte: u8) -> f32 {
    let scaled = f32::from(byte) / 255.0;
    scaled * scaled * MAX_WEIGHT
}

/// Weights of all bytes.
#[must_use]
pub(crate) fn weight_table() -> [f32; 256] {
    std::array::from_fn(|byte| dequantize(u8::try_from(byte).unwrap_or(u8::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantized_weights_are_close_and_ordered() {
        for weight in [0.01_f32, 0.1, 0.5, 1.0, 1.9] {
            let found = dequantize(quantize(weight));
            assert!((found - weight).abs() < 0.05 * weight.max(0.3), "{weight} {found}");
        }
        let table = weight_table();
        assert!(table.is_sorted() && table[255] <= MAX_WEIGHT);
        for (at, field) in FIELDS.into_iter().enumerate() {
            assert_eq!(field as usize, at);
        }
    }

    #[test]
    fn a_long_field_weighs_less_and_a_better_one_more() {
        let count = |field: SearchField, amount: f32| {
            let mut counts = FieldCounts::default();
            counts.add(field, amount);
            counts
        };
        let short = [3.0; SearchField::COUNT];
        let long = [3000.0; SearchField::COUNT];
        let body = count(SearchField::Body, 1.0);
        assert!(body.weight(&long) < body.weight(&short));
        assert!(body.weight(&short) < count(SearchField::Id, 1.0).weight(&short));
        // Two words of a body beat one of a description, and no number of repetitions beats three.
        let description = count(SearchField::Description, 1.0).weight(&[30.0; SearchField::COUNT]);
        let average = [600.0; SearchField::COUNT];
        let once = count(SearchField::Body, 1.0).weight(&average);
        let often = count(SearchField::Body, 1000.0).weight(&average);
        assert!(2.0 * once > description && often < 3.0 * once);
    }
}
