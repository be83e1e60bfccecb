//! Weight of a term in a document: a sum over fields, each saturated on its own.
//!
//! A field contributes `W * tf / (tf + k * norm)`, as BM25 does, with the field's own weight. Lengths are compared with
//! fixed averages instead of those of the corpus: the weight then depends on the document alone, can be stored with the
//! posting, and tells a caller nothing about documents of others. A sum of saturated fields keeps a name above a body
//! that repeats a word; one saturation over all fields, as in BM25F, did not.

use crate::document::SearchField;

/// Parameters of a field.
struct FieldWeight {
    /// Largest contribution.
    weight: f32,
    /// Count at which half of the weight is reached, in a field of average length.
    half: f32,
    /// Average length in terms.
    average: f32,
    /// Influence of the length, from 0 to 1.
    length_influence: f32,
}

const fn field_weight(field: SearchField) -> FieldWeight {
    let (weight, half, average, length_influence) = match field {
        SearchField::Id => (1.0, 0.25, 3.0, 0.5),
        SearchField::Name => (0.5, 0.25, 3.0, 0.5),
        SearchField::Title => (0.6, 0.4, 4.0, 0.4),
        SearchField::Tags => (0.6, 0.5, 8.0, 0.2),
        SearchField::Description => (0.9, 0.8, 30.0, 0.35),
        SearchField::Headings => (0.35, 1.0, 40.0, 0.4),
        SearchField::Body => (0.65, 2.5, 400.0, 0.5),
        SearchField::Files => (0.25, 0.5, 8.0, 0.3),
        SearchField::Parameters => (0.3, 0.5, 8.0, 0.3),
    };
    FieldWeight { weight, half, average, length_influence }
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

/// Largest possible weight.
const MAX_WEIGHT: f32 = 5.5;

/// Occurrences of a term by field.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FieldCounts([f32; SearchField::COUNT]);

impl FieldCounts {
    pub(crate) fn add(&mut self, field: SearchField, amount: f32) {
        self.0[field as usize] += amount;
    }

    /// Returns the weight in a document whose fields have these lengths.
    pub(crate) fn weight(&self, lengths: &[f32; SearchField::COUNT]) -> f32 {
        let contribution = |field: SearchField| {
            let count = self.0[field as usize];
            if count == 0.0 {
                return 0.0;
            }
            let FieldWeight { weight, half, average, length_influence } = field_weight(field);
            let relative = lengths[field as usize] / average;
            let norm = 1.0 - length_influence + length_influence * relative;
            weight * count / (count + half * norm)
        };
        FIELDS.into_iter().map(contribution).sum()
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
        for weight in [0.01_f32, 0.1, 0.5, 1.0, 2.0, 4.5] {
            let found = dequantize(quantize(weight));
            assert!((found - weight).abs() < 0.05 * weight.max(0.3), "{weight} {found}");
        }
        let table = weight_table();
        assert!(table.is_sorted() && table[255] <= MAX_WEIGHT);
        let all: f32 = FIELDS.into_iter().map(|field| field_weight(field).weight).sum();
        assert!(all <= MAX_WEIGHT);
        for (at, field) in FIELDS.into_iter().enumerate() {
            assert_eq!(field as usize, at);
        }
    }

    #[test]
    fn a_repeated_word_of_a_body_stays_below_a_name() {
        let lengths = [3.0; SearchField::COUNT];
        let mut body = FieldCounts::default();
        body.add(SearchField::Body, 1000.0);
        let mut name = FieldCounts::default();
        name.add(SearchField::Id, 1.0);
        assert!(body.weight(&lengths) < name.weight(&lengths));
    }
}
