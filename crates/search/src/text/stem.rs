//! English stemming: the Porter2 algorithm, with names and acronyms of the field left alone.

/// Words that keep their final letters: names and acronyms that only look like plurals or verbs. Sorted.
const INVARIANT: &[&str] = &[
    "ansible",
    "atlas",
    "aws",
    "bias",
    "bing",
    "bonus",
    "canvas",
    "chaos",
    "cms",
    "cors",
    "cosmos",
    "css",
    "dns",
    "ecs",
    "eks",
    "gcs",
    "gps",
    "ios",
    "js",
    "kubernetes",
    "lens",
    "macos",
    "news",
    "nodejs",
    "obs",
    "os",
    "paas",
    "pos",
    "postgres",
    "rails",
    "rds",
    "redis",
    "rss",
    "saas",
    "sas",
    "sms",
    "sns",
    "spring",
    "sqs",
    "tls",
    "travis",
    "ts",
    "virus",
    "vllm",
    "windows",
];

/// Words with a stem that no rule makes. Sorted.
const IRREGULAR: &[(&str, &str)] = &[
    ("analyse", "analys"),
    ("analyses", "analysi"),
    ("analysing", "analys"),
    ("analysis", "analys"),
    ("analytics", "analyt"),
    ("analyze", "analys"),
    ("analyzed", "analys"),
    ("analyzer", "analys"),
    ("analyzes", "analys"),
    ("analyzing", "analys"),
    ("dying", "die"),
    ("early", "earli"),
    ("gently", "gentl"),
    ("idly", "idl"),
    ("indices", "index"),
    ("lying", "lie"),
    ("matrices", "matrix"),
    ("only", "onli"),
    ("schemas", "schema"),
    ("schemata", "schema"),
    ("singly", "singl"),
    ("skies", "sky"),
    ("skis", "ski"),
    ("tying", "tie"),
    ("ugly", "ugli"),
    ("written", "write"),
    ("wrote", "write"),
];

/// Stems a folded word in place. Words that are not plain English letters stay as they are.
pub(crate) fn stem(word: &mut String) {
    if word.len() < 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    if INVARIANT.binary_search(&word.as_str()).is_ok() {
        return;
    }
    if let Ok(at) = IRREGULAR.binary_search_by_key(&word.as_str(), |(irregular, _)| *irregular) {
        word.clear();
        word.push_str(IRREGULAR[at].1);
        return;
    }
    let mut stemmer = Stemmer::new(std::mem::take(word).into_bytes());
    stemmer.run();
    // Only ASCII letters were removed or added.
    *word = String::from_utf8(stemmer.word).unwrap_or_default().to_ascii_lowercase();
}

struct Stemmer {
    word: Vec<u8>,
    r1: usize,
    r2: usize,
}

const fn is_vowel(byte: u8) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

/// Returns the position after the first consonant that follows a vowel.
fn region(word: &[u8], from: usize) -> usize {
    let mut at = from;
    while at + 1 < word.len() {
        if is_vowel(word[at]) && !is_vowel(word[at + 1]) {
            return at + 2;
        }
        at += 1;
    }
    word.len()
}

impl Stemmer {
    fn new(mut word: Vec<u8>) -> Self {
        // A `y` that is a consonant is written in upper case.
        for at in 0..word.len() {
            if word[at] == b'y' && (at == 0 || is_vowel(word[at - 1])) {
                word[at] = b'Y';
            }
        }
        let special = [&b"gener"[..], b"commun", b"arsen"];
        let prefix = special.iter().find(|prefix| word.starts_with(prefix));
        let r1 = prefix.map_or_else(|| region(&word, 0), |prefix| prefix.len());
        let r2 = region(&word, r1);
        Self { word, r1, r2 }
    }

    fn run(&mut self) {
        self.plural();
        let kept: [&[u8]; 8] = [
            b"inning", b"outing", b"canning", b"herring", b"earring", b"proceed", b"exceed",
            b"succeed",
        ];
        if kept.contains(&&self.word[..]) {
            return;
        }
        self.past_and_gerund();
        self.final_y();
        self.step2();
        self.step3();
        self.step4();
        self.step5();
    }

    fn ends(&self, suffix: &[u8]) -> bool {
        self.word.ends_with(suffix)
    }

    /// Returns the position of a suffix.
    fn at(&self, suffix: &[u8]) -> usize {
        self.word.len() - suffix.len()
    }

    fn replace(&mut self, suffix: &[u8], with: &[u8]) {
        let at = self.at(suffix);
        self.word.truncate(at);
        self.word.extend_from_slice(with);
    }

    fn has_vowel(&self, end: usize) -> bool {
        self.word[..end].iter().any(|&byte| is_vowel(byte))
    }

    fn ends_in_short_syllable(&self, end: usize) -> bool {
        let word = &self.word[..end];
        match word {
            [first, second] => is_vowel(*first) && !is_vowel(*second),
            [.., before, vowel, last] => {
                !is_vowel(*before)
                    && is_vowel(*vowel)
                    && !is_vowel(*last)
                    && !matches!(last, b'w' | b'x' | b'Y')
            }
            _ => false,
        }
    }

    fn plural(&mut self) {
        if self.ends(b"sses") {
            self.replace(b"sses", b"ss");
        } else if self.ends(b"ied") || self.ends(b"ies") {
            let with: &[u8] = if self.word.len() > 4 { b"i" } else { b"ie" };
            self.replace(b"ies", with);
        } else if self.ends(b"us") || self.ends(b"ss") {
        } else if self.ends(b"s") && self.word.len() > 2 && self.has_vowel(self.word.len() - 2) {
            self.word.pop();
        } else if self.ends(b"s") && self.word.len() <= 5 && !self.has_vowel(self.word.len()) {
            // `PRs`, `PDFs`: acronyms without a vowel have plurals too.
            self.word.pop();
        }
    }

    fn past_and_gerund(&mut self) {
        for suffix in [&b"eedly"[..], b"eed"] {
            if self.ends(suffix) {
                if self.at(suffix) >= self.r1 {
                    self.replace(suffix, b"ee");
                }
                return;
            }
        }
        for suffix in [&b"ingly"[..], b"edly", b"ing", b"ed"] {
            if self.ends(suffix) {
                let at = self.at(suffix);
                if self.has_vowel(at) {
                    self.word.truncate(at);
                    self.restore_end();
                }
                return;
            }
        }
    }

    /// Restores the end of a verb after its ending was removed.
    fn restore_end(&mut self) {
        let doubles: [&[u8]; 9] = [b"bb", b"dd", b"ff", b"gg", b"mm", b"nn", b"pp", b"rr", b"tt"];
        if self.ends(b"at") || self.ends(b"bl") || self.ends(b"iz") {
            self.word.push(b'e');
        } else if doubles.iter().any(|double| self.ends(double)) {
            self.word.pop();
        } else if self.r1 >= self.word.len() && self.ends_in_short_syllable(self.word.len()) {
            self.word.push(b'e');
        }
    }

    fn final_y(&mut self) {
        if let [_, .., before, last @ (b'y' | b'Y')] = &mut self.word[..]
            && !is_vowel(*before)
        {
            *last = b'i';
        }
    }

    fn step2(&mut self) {
        let rules: [(&[u8], &[u8]); 21] = [
            (b"ization", b"ize"),
            (b"ational", b"ate"),
            (b"fulness", b"ful"),
            (b"ousness", b"ous"),
            (b"iveness", b"ive"),
            (b"tional", b"tion"),
            (b"biliti", b"ble"),
            (b"lessli", b"less"),
            (b"entli", b"ent"),
            (b"ation", b"ate"),
            (b"alism", b"al"),
            (b"aliti", b"al"),
            (b"ousli", b"ous"),
            (b"iviti", b"ive"),
            (b"fulli", b"ful"),
            (b"enci", b"ence"),
            (b"anci", b"ance"),
            (b"abli", b"able"),
            (b"izer", b"ize"),
            (b"ator", b"ate"),
            (b"alli", b"al"),
        ];
        if self.apply(&rules, self.r1) {
            return;
        }
        if self.ends(b"bli") {
            if self.at(b"bli") >= self.r1 {
                self.replace(b"bli", b"ble");
            }
        } else if self.ends(b"ogi") {
            if self.at(b"ogi") >= self.r1 && self.word[..self.at(b"ogi")].ends_with(b"l") {
                self.replace(b"ogi", b"og");
            }
        } else if self.ends(b"li") && self.at(b"li") >= self.r1 {
            let before = self.word[..self.at(b"li")].last();
            if before.is_some_and(|byte| b"cdeghkmnrt".contains(byte)) {
                self.replace(b"li", b"");
            }
        }
    }

    fn step3(&mut self) {
        let rules: [(&[u8], &[u8]); 8] = [
            (b"ational", b"ate"),
            (b"tional", b"tion"),
            (b"alize", b"al"),
            (b"icate", b"ic"),
            (b"iciti", b"ic"),
            (b"ical", b"ic"),
            (b"ness", b""),
            (b"ful", b""),
        ];
        if !self.apply(&rules, self.r1) && self.ends(b"ative") && self.at(b"ative") >= self.r2 {
            self.replace(b"ative", b"");
        }
    }

    fn step4(&mut self) {
        let suffixes: [&[u8]; 17] = [
            b"ement", b"ance", b"ence", b"able", b"ible", b"ment", b"ant", b"ent", b"ism", b"ate",
            b"iti", b"ous", b"ive", b"ize", b"al", b"er", b"ic",
        ];
        if let Some(suffix) = suffixes.iter().find(|suffix| self.ends(suffix)) {
            if self.at(suffix) >= self.r2 {
                self.replace(suffix, b"");
            }
        } else if self.ends(b"ion") && self.at(b"ion") >= self.r2 {
            let before = self.word[..self.at(b"ion")].last();
            if before.is_some_and(|byte| b"st".contains(byte)) {
                self.replace(b"ion", b"");
            }
        }
    }

    fn step5(&mut self) {
        let at = self.word.len().saturating_sub(1);
        if self.ends(b"e") {
            if at >= self.r2 || (at >= self.r1 && !self.ends_in_short_syllable(at)) {
                self.word.pop();
            }
        } else if self.ends(b"ll") && at >= self.r2 {
            self.word.pop();
        }
    }

    /// Applies the first rule whose suffix fits, if it is in a region. Returns whether a suffix fits.
    fn apply(&mut self, rules: &[(&[u8], &[u8])], region: usize) -> bool {
        let Some((suffix, with)) = rules.iter().find(|(suffix, _)| self.ends(suffix)) else {
            return false;
        };
        if self.at(suffix) >= region {
            self.replace(suffix, with);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stemmed(word: &str) -> String {
        let mut word = word.to_owned();
        stem(&mut word);
        word
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(INVARIANT.is_sorted());
        assert!(IRREGULAR.is_sorted());
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["test", "tests", "testing", "tested"][..],
            &["deploy", "deploys", "deploying", "deployed"],
            &["summary", "summaries"],
            &["generate", "generates", "generating", "generation", "generator"],
            &["review", "reviews", "reviewer", "reviewing"],
            &["scrape", "scraping", "scraped"],
            &["query", "queries"],
            &["plan", "planning", "plans"],
            &["pr", "prs"],
            &["analyse", "analyze", "analysis", "analyzing"],
            &["convert", "converting", "converts"],
        ] {
            let first = stemmed(forms[0]);
            for form in forms {
                assert_eq!(stemmed(form), first, "{form}");
            }
        }
    }

    #[test]
    fn other_words_keep_their_own_stem() {
        for (one, other) in
            [("ios", "io"), ("general", "generate"), ("news", "new"), ("aws", "aw"), ("css", "cs")]
        {
            assert_ne!(stemmed(one), stemmed(other));
        }
        for word in ["日本", "k8s", "c++", "is", "naive"] {
            assert!(!stemmed(word).is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_word_has_a_stem_that_is_not_longer_by_more_than_a_letter(word in "[a-z]{1,20}") {
            let stem = stemmed(&word);
            prop_assert!(!stem.is_empty() && stem.len() <= word.len() + 1, "{} {}", word, stem);
        }
    }
}
