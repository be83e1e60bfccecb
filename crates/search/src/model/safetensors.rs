//! Reader of the safetensors format, for the one table that a static model has.

use serde::Deserialize;

/// Names under which models store their table.
const TABLE_NAMES: [&str; 2] = ["embeddings", "embedding.weight"];
/// Largest header in bytes.
const MAX_HEADER_BYTES: usize = 1 << 20;
/// Most numbers of a table: one gigabyte.
const MAX_NUMBERS: usize = 1 << 28;

/// File that is not a table of vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SafetensorsError {
    /// The file does not begin with a header.
    #[error("it does not begin with a header")]
    Header,
    /// There is no table under a known name.
    #[error("it has no tensor `embeddings`")]
    NoTable,
    /// The table has another number of dimensions, or too many numbers.
    #[error("the table is not a matrix, or it is too large")]
    Shape,
    /// The numbers have another type.
    #[error("the numbers are {0}; F32, F16 and BF16 are supported")]
    Type(String),
    /// The numbers do not fill the table.
    #[error("the numbers do not fill the table")]
    Truncated,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// Matrix of numbers, row by row.
pub(super) struct Matrix {
    columns: usize,
    numbers: Vec<f32>,
}

impl Matrix {
    /// Reads the table of a file.
    pub(super) fn parse(file: &[u8]) -> Result<Self, SafetensorsError> {
        let (length, rest) = file.split_first_chunk::<8>().ok_or(SafetensorsError::Header)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let header = rest.get(..length).filter(|_| length <= MAX_HEADER_BYTES);
        let header = header.ok_or(SafetensorsError::Header)?;
        let data = &rest[length..];
        let header: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(header).map_err(|_| SafetensorsError::Header)?;
        let table = TABLE_NAMES.iter().find_map(|name| header.get(*name));
        let table = table.ok_or(SafetensorsError::NoTable)?;
        let table: Tensor =
            serde_json::from_value(table.clone()).map_err(|_| SafetensorsError::Header)?;
        let [rows, columns] = table.shape[..] else { return Err(SafetensorsError::Shape) };
        let count = rows.checked_mul(columns).filter(|count| (1..=MAX_NUMBERS).contains(count));
        let count = count.ok_or(SafetensorsError::Shape)?;
        let (start, end) = table.data_offsets;
        let bytes = data.get(start..end).ok_or(SafetensorsError::Truncated)?;
        let numbers: Vec<f32> = match table.dtype.as_str() {
            "F32" => bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            "F16" => {
                bytes.as_chunks().0.iter().map(|bytes| half(u16::from_le_bytes(*bytes))).collect()
            }
            "BF16" => {
                let wide =
                    |bytes: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
                bytes.as_chunks().0.iter().map(wide).collect()
            }
            other => return Err(SafetensorsError::Type(other.chars().take(16).collect())),
        };
        if numbers.len() != count {
            return Err(SafetensorsError::Truncated);
        }
        Ok(Self { columns, numbers })
    }

    pub(super) const fn columns(&self) -> usize {
        self.columns
    }

    pub(super) const fn rows(&self) -> usize {
        self.numbers.len() / self.columns
    }

    pub(super) fn row(&self, number: usize) -> Option<&[f32]> {
        self.numbers.chunks(self.columns).nth(number)
    }
}

/// Converts a number of 16 bits (IEEE 754 binary16).
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2_f32.powi(-24),
        0x1f => 0.0,
        _ => sign * (1.0 + fraction / 1024.0) * 2_f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(header: &serde_json::Value, data: &[u8]) -> Vec<u8> {
        let header = header.to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn numbers_of_all_types_are_read() {
        for (dtype, data) in [
            ("F32", [1.0_f32, -0.5].map(f32::to_le_bytes).concat()),
            ("F16", [0x3c00_u16, 0xb800].map(u16::to_le_bytes).concat()),
            ("BF16", [0x3f80_u16, 0xbf00].map(u16::to_le_bytes).concat()),
        ] {
            let header = json!({ "embeddings": { "dtype": dtype, "shape": [1, 2], "data_offsets": [0, data.len()] } });
            let matrix = Matrix::parse(&file(&header, &data)).unwrap();
            assert_eq!(matrix.row(0), Some(&[1.0, -0.5][..]), "{dtype}");
            assert_eq!((matrix.rows(), matrix.columns(), matrix.row(1)), (1, 2, None));
        }
        assert_eq!(half(0x0001), 2_f32.powi(-24));
    }

    #[test]
    fn other_files_are_refused() {
        let table = |shape: serde_json::Value, dtype: &str, end: usize| json!({ "embeddings": { "dtype": dtype, "shape": shape, "data_offsets": [0, end] } });
        for (bytes, error) in [
            (vec![], SafetensorsError::Header),
            (vec![255; 20], SafetensorsError::Header),
            (file(&json!({}), &[]), SafetensorsError::NoTable),
            (file(&table(json!([2]), "F32", 8), &[0; 8]), SafetensorsError::Shape),
            (file(&table(json!([u64::MAX, 2]), "F32", 8), &[0; 8]), SafetensorsError::Shape),
            (
                file(&table(json!([1, 2]), "I8", 2), &[0; 2]),
                SafetensorsError::Type("I8".to_owned()),
            ),
            (file(&table(json!([1, 2]), "F32", 80), &[0; 8]), SafetensorsError::Truncated),
            (file(&table(json!([2, 2]), "F32", 8), &[0; 8]), SafetensorsError::Truncated),
        ] {
            assert_eq!(Matrix::parse(&bytes).err(), Some(error));
        }
    }
}
