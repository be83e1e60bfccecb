//! Scripts that are written without spaces between words, and are indexed by pairs of characters.

/// Returns whether a character belongs to a script without spaces between words, or to Korean, whose words carry
/// endings that a pair of syllables ignores.
#[must_use]
pub(crate) const fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}'     // Thai, Lao
        | '\u{0f00}'..='\u{0fff}'   // Tibetan
        | '\u{1000}'..='\u{109f}'   // Myanmar
        | '\u{1780}'..='\u{17ff}'   // Khmer
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' // Kana without the middle dot
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{ac00}'..='\u{d7a3}'   // Hangul syllables
        | '\u{20000}'..='\u{3ffff}'
    )
}

const fn is_hiragana(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{309f}')
}

/// Characters of Chinese function words, which occur in most sentences.
const CHINESE_FUNCTION_CHARS: &str = "的了我你他她它们是在把和与请帮想要吗呢吧个这那有怎么如何给一下以及就也都被让从对到能可会用并或";

/// Returns the weight of a pair of characters in a query. Hiragana and Chinese function words carry grammar more often
/// than content.
#[must_use]
pub(crate) fn cjk_weight(term: &str) -> f32 {
    let chars = term.chars().count().max(1) as f32;
    let function = |c: &char| is_hiragana(*c) || CHINESE_FUNCTION_CHARS.contains(*c);
    let content = chars - term.chars().filter(function).count() as f32;
    0.15 + 0.85 * content / chars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_weighs_more_than_grammar() {
        assert!(cjk_weight("翻訳") > cjk_weight("訳し"));
        assert!(cjk_weight("訳し") > cjk_weight("して"));
        assert!(cjk_weight("表格") > cjk_weight("我想"));
    }

    #[test]
    fn spaced_scripts_are_not_paired() {
        assert!(!"aéжλ1-・".chars().any(is_unspaced));
        assert!("漢かカー한ไ".chars().all(is_unspaced));
    }
}
