//! The settings as a file has them: the seed's keys and defaults, and ours beside them.

use std::time::Duration;

use serde::Deserialize;
use serde_saphyr::Error;
use tidewire_store::Offset;
use tidewire_store::groups::{OnDead, Start};
use tidewire_suggest::nearest;

use crate::settings::{Settings, SettingsError};

/// The only topic: the whole log.
const WHOLE_LOG: u64 = 1;

/// The file. What is not there, or null, is as it is by default.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    group_id: Option<String>,
    batch_size: Option<usize>,
    total_partitions: Option<u32>,
    partition_id: Option<u32>,
    wait_period_ms: Option<u64>,
    topic_id: Option<u64>,
    database: Option<String>,
    tables: Option<Vec<String>>,
    streams: Option<Vec<String>>,
    start: Option<String>,
    max_attempts: Option<u32>,
    on_dead: Option<String>,
    retry_ms: Option<u64>,
    retry_max_ms: Option<u64>,
    handler_timeout_ms: Option<u64>,
    transaction_events_max: Option<usize>,
    transaction_bytes_max: Option<usize>,
}

pub(crate) fn read(text: &str) -> Result<Settings, SettingsError> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| told(&error))?;
    let settings = settings(file).and_then(|settings| settings.check().map(|()| settings));
    settings.map_err(|problem| SettingsError(placed(text, problem)))
}

fn settings(file: File) -> Result<Settings, String> {
    let usual = Settings::default();
    let ms = |value: Option<u64>, usual| value.map_or(usual, Duration::from_millis);
    if let Some(topic) = file.topic_id
        && topic != WHOLE_LOG
    {
        return Err(format!(
            "topicId is {WHOLE_LOG}, the whole log, not {topic}: use tables and streams"
        ));
    }
    let on_dead = |word: String| {
        OnDead::parse(&word).ok_or_else(|| format!("onDead is `park` or `skip`, not `{word}`"))
    };
    Ok(Settings {
        group: file.group_id.ok_or("groupId is missing: the name of the group")?,
        batch_size: file.batch_size.unwrap_or(usual.batch_size),
        partitions: file.total_partitions,
        pinned: file.partition_id,
        tables: file.tables.unwrap_or_default(),
        streams: file.streams.unwrap_or_default(),
        start: file.start.map_or(Ok(usual.start), |word| start(&word))?,
        max_attempts: file.max_attempts,
        on_dead: file.on_dead.map(on_dead).transpose()?,
        retry: ms(file.retry_ms, usual.retry),
        retry_max: ms(file.retry_max_ms, usual.retry_max),
        handler_timeout: ms(file.handler_timeout_ms, usual.handler_timeout),
        wait_period: ms(file.wait_period_ms, usual.wait_period),
        transaction_events_max: file.transaction_events_max.unwrap_or(usual.transaction_events_max),
        transaction_bytes_max: file.transaction_bytes_max.unwrap_or(usual.transaction_bytes_max),
        database: file.database,
        ..usual
    })
}

fn start(word: &str) -> Result<Start, String> {
    match word {
        "beginning" => return Ok(Start::Beginning),
        "now" => return Ok(Start::Now),
        _ => {}
    }
    if let Ok(offset) = word.parse::<Offset>() {
        return Ok(Start::After(offset));
    }
    let time: Result<jiff::Timestamp, _> = word.parse();
    time.map(|time| Start::Time(time.as_millisecond())).map_err(|_| {
        format!(
            "start is `beginning`, `now`, an offset such as 0001_0000000000000042, or a time such as \
             2026-01-31T12:00:00Z, not `{word}`"
        )
    })
}

/// A problem with the file's form, and what was meant.
fn told(error: &Error) -> SettingsError {
    let plain = error.without_snippet();
    let place = error.location().map_or_else(String::new, |location| {
        format!("line {}, column {}: ", location.line(), location.column())
    });
    let text = match plain {
        Error::SerdeUnknownField { field, expected, .. } => {
            match nearest(field, expected.iter().copied()) {
                Some(meant) => format!("there is no key `{field}`; is `{meant}` meant?"),
                None => format!("there is no key `{field}`; there are {}", expected.join(", ")),
            }
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is there twice"),
        other => {
            let text = other.to_string();
            // The place is told first, and once.
            text.split(" at line ").next().unwrap_or(&text).to_owned()
        }
    };
    SettingsError(format!("{place}{text}"))
}

/// A problem with a value, and the line where it is: problems open with their key.
fn placed(text: &str, problem: String) -> String {
    let key = problem.split(' ').next().unwrap_or_default();
    let line = (1..).zip(text.lines()).find(|(_, line)| {
        line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'))
    });
    match line {
        Some((number, _)) => format!("line {number}: {problem}"),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the design of the database's publish and subscribe prints it.
    const SEED: &str = "groupId: user-query-group\nbatchSize: 100\ntotalPartitions: 8\npartitionId: 0\nwaitPeriodMs: 10000\n";

    fn wrong(text: &str) -> String {
        read(text).expect_err(text).0
    }

    #[test]
    fn the_file_as_the_seed_prints_it_is_read() {
        let settings = read(SEED).expect("read");
        assert_eq!(settings.group, "user-query-group");
        assert_eq!(
            (settings.batch_size, settings.partitions, settings.pinned),
            (100, Some(8), Some(0))
        );
        assert_eq!(settings.wait_period, Duration::from_secs(10));
    }

    #[test]
    fn what_is_not_said_is_as_the_builder_has_it() {
        let settings = read("groupId: g\npartitionId: null\n").expect("read");
        assert_eq!(settings, Settings { group: "g".to_owned(), ..Settings::default() });
    }

    #[test]
    fn everything_can_be_said() {
        let text = "groupId: 007\ntopicId: 1\ndatabase: postgres://h/d\ntables: [orders]\nstreams: ['chat/*']\n\
                    start: now\nmaxAttempts: 3\nonDead: skip\nretryMs: 5\nretryMaxMs: 6\n\
                    handlerTimeoutMs: 7\ntransactionEventsMax: 8\ntransactionBytesMax: 9\n";
        let settings = read(text).expect("read");
        assert_eq!(settings.group, "007");
        assert_eq!(
            (settings.tables, settings.streams),
            (vec!["orders".into()], vec!["chat/*".into()])
        );
        assert_eq!((settings.start, settings.on_dead), (Start::Now, Some(OnDead::Skip)));
        assert_eq!(
            (settings.max_attempts, settings.retry_max),
            (Some(3), Duration::from_millis(6))
        );
        assert_eq!((settings.transaction_events_max, settings.transaction_bytes_max), (8, 9));
    }

    #[test]
    fn a_start_is_a_word_an_offset_or_a_time() {
        let start =
            |word: &str| read(&format!("groupId: g\nstart: {word}\n")).map(|found| found.start);
        assert_eq!(start("beginning"), Ok(Start::Beginning));
        let offset = "0001_0000000000000042".parse().expect("an offset");
        assert_eq!(start("0001_0000000000000042"), Ok(Start::After(offset)));
        assert_eq!(start("1970-01-01T00:00:01.5Z"), Ok(Start::Time(1_500)));
        let wrong = start("yesterday").expect_err("refused").0;
        assert!(wrong.starts_with("line 2: start is `beginning`"), "{wrong}");
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest() {
        let text = wrong("groupId: g\nbatchsize: 5\n");
        assert_eq!(text, "line 2, column 1: there is no key `batchsize`; is `batchSize` meant?");
        assert!(wrong("groupId: g\nzebra: 5\n").contains("there are groupId, batchSize"));
    }

    #[test]
    fn problems_say_where_they_are() {
        for (text, problem) in [
            ("groupId: g\ntopicId: 2\n", "line 2: topicId is 1"),
            ("groupId: g\nbatchSize: 0\n", "line 2: batchSize is 1 to 10000, not 0"),
            ("groupId: g\ntotalPartitions: 4\npartitionId: 4\n", "line 3: partitionId is 0 to 3"),
            ("groupId: g\nonDead: explode\n", "line 2: onDead is `park` or `skip`"),
            ("batchSize: 5\n", "groupId is missing"),
            ("groupId: g\nbatchSize: many\n", "line 2, column 12: "),
            ("groupId: g\ngroupId: h\n", "line 2, column 1: `groupId` is there twice"),
            ("groupId: [\n", "line "),
        ] {
            let told = wrong(text);
            assert!(told.starts_with(problem), "{text:?} gave {told:?}");
        }
    }

    #[test]
    fn anchors_that_multiply_are_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for depth in 1..12 {
            let below = vec![format!("*a{}", depth - 1); 10].join(", ");
            text.push_str(&format!("a{depth}: &a{depth} [{below}]\n"));
        }
        text.push_str("groupId: g\n");
        // No key takes lists of lists, so that such a list is refused before it is unfolded.
        let told = wrong(&text);
        assert!(told.contains("there is no key `a0`"), "{told}");
    }
}
