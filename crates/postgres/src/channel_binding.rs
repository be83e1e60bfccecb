//! Channel binding `tls-server-end-point` (RFC 5929): a hash of the server's certificate, by which the server proves in the
//! exchange of the password that no one is in between.

use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// Tag of an object identifier.
const OBJECT_ID: u8 = 0x06;
/// Tag of the hash algorithm among the parameters of RSASSA-PSS.
const PSS_HASH: u8 = 0xa0;

/// 1.2.840.113549.1.1: RSA, with the number of the signature algorithm to follow.
const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4: ECDSA.
const ECDSA: [u8; 6] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
/// 2.16.840.1.101.3.4.2: hash algorithms.
const HASHES: [u8; 8] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// Returns the binding of a certificate in DER, or `None` if its signature algorithm has none.
pub(crate) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    Some(match signature_hash(certificate)? {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

/// Returns the hash of the algorithm that a certificate is signed with. In place of MD5 and SHA-1 it is SHA-256.
fn signature_hash(certificate: &[u8]) -> Option<Hash> {
    let (_, fields, _) = der_value(certificate)?;
    let (_, _signed, rest) = der_value(fields)?;
    let (id, parameters) = algorithm(rest)?;
    if let Some(number) = id.strip_prefix(&RSA) {
        return match number {
            [4 | 5 | 11] => Some(Hash::Sha256),
            [12] => Some(Hash::Sha384),
            [13] => Some(Hash::Sha512),
            [10] => pss_hash(parameters),
            _ => None,
        };
    }
    match id.strip_prefix(&ECDSA)? {
        [1] | [3, 2] => Some(Hash::Sha256),
        [3, 3] => Some(Hash::Sha384),
        [3, 4] => Some(Hash::Sha512),
        _ => None,
    }
}

/// Returns the hash of the parameters of RSASSA-PSS.
fn pss_hash(parameters: &[u8]) -> Option<Hash> {
    let (_, fields, _) = der_value(parameters)?;
    let Some((PSS_HASH, field, _)) = der_value(fields) else {
        // The default is SHA-1.
        return Some(Hash::Sha256);
    };
    match algorithm(field)?.0.strip_prefix(&HASHES)? {
        [1] => Some(Hash::Sha256),
        [2] => Some(Hash::Sha384),
        [3] => Some(Hash::Sha512),
        _ => None,
    }
}

/// Splits an algorithm identifier into object identifier and parameters.
fn algorithm(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, fields, _) = der_value(input)?;
    match der_value(fields)? {
        (OBJECT_ID, id, parameters) => Some((id, parameters)),
        _ => None,
    }
}

/// Splits the first value of DER into tag, content and what follows it.
fn der_value(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let append =
            |length: usize, byte: &u8| length.checked_mul(256)?.checked_add((*byte).into());
        (bytes.iter().try_fold(0, append)?, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCE: u8 = 0x30;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82, length[0], length[1]], &*content].concat()
    }

    fn algorithm_id(arc: &[u8], number: &[u8], parameters: &[u8]) -> Vec<u8> {
        der(SEQUENCE, &[&der(OBJECT_ID, &[arc, number]), parameters])
    }

    fn certificate(arc: &[u8], number: &[u8], parameters: &[u8]) -> Vec<u8> {
        let signed = der(SEQUENCE, &[&[7; 300]]);
        der(SEQUENCE, &[&signed, &algorithm_id(arc, number, parameters), &[3, 2, 0, 1]])
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        let pss = |number: u8| {
            let hash = algorithm_id(&HASHES, &[number], &[5, 0]);
            certificate(&RSA, &[10], &der(SEQUENCE, &[&der(PSS_HASH, &[&hash])]))
        };
        let cases = [
            ("RSA, MD5", certificate(&RSA, &[4], &[5, 0]), Some(Hash::Sha256)),
            ("RSA, SHA-1", certificate(&RSA, &[5], &[5, 0]), Some(Hash::Sha256)),
            ("RSA, SHA-256", certificate(&RSA, &[11], &[5, 0]), Some(Hash::Sha256)),
            ("RSA, SHA-384", certificate(&RSA, &[12], &[5, 0]), Some(Hash::Sha384)),
            ("RSA, SHA-512", certificate(&RSA, &[13], &[5, 0]), Some(Hash::Sha512)),
            ("PSS, SHA-1", certificate(&RSA, &[10], &der(SEQUENCE, &[])), Some(Hash::Sha256)),
            ("PSS, SHA-256", pss(1), Some(Hash::Sha256)),
            ("PSS, SHA-512", pss(3), Some(Hash::Sha512)),
            ("ECDSA, SHA-1", certificate(&ECDSA, &[1], &[]), Some(Hash::Sha256)),
            ("ECDSA, SHA-256", certificate(&ECDSA, &[3, 2], &[]), Some(Hash::Sha256)),
            ("ECDSA, SHA-384", certificate(&ECDSA, &[3, 3], &[]), Some(Hash::Sha384)),
            ("Ed25519", certificate(&[0x2b, 0x65], &[0x70], &[]), None),
        ];
        for (name, certificate, hash) in cases {
            assert_eq!(signature_hash(&certificate), hash, "{name}");
        }
        let certificate = certificate(&RSA, &[12], &[]);
        assert_eq!(server_end_point(&certificate), Some(Sha384::digest(&certificate).to_vec()));
    }

    #[test]
    fn a_damaged_certificate_has_no_hash() {
        let whole = certificate(&RSA, &[11], &[5, 0]);
        for length in 0..whole.len() {
            assert_eq!(signature_hash(&whole[..length]), None, "{length}");
        }
        assert_eq!(signature_hash(&[SEQUENCE, 0xff, 1, 2, 3]), None);
        assert_eq!(signature_hash(&[SEQUENCE, 0x89, 1, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
