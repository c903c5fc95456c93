//! What is recorded, by name.

/// The order is that of the figures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Series {
    Submitted,
    Started,
    Completed,
    Failed,
    Retried,
    DeadLettered,
    Cancelled,
    WaitP50,
    WaitP95,
    WaitP99,
    RunP50,
    RunP95,
    RunP99,
    Pending,
    Running,
    Scheduled,
    Retrying,
    Blocked,
    DeadLetter,
    OldestPending,
    Workers,
    CommitP99,
    MemoryBytes,
    CpuPercent,
}

pub(super) const WIDTH: usize = Series::ALL.len();

impl Series {
    pub const ALL: [Series; 24] = [
        Series::Submitted,
        Series::Started,
        Series::Completed,
        Series::Failed,
        Series::Retried,
        Series::DeadLettered,
        Series::Cancelled,
        Series::WaitP50,
        Series::WaitP95,
        Series::WaitP99,
        Series::RunP50,
        Series::RunP95,
        Series::RunP99,
        Series::Pending,
        Series::Running,
        Series::Scheduled,
        Series::Retrying,
        Series::Blocked,
        Series::DeadLetter,
        Series::OldestPending,
        Series::Workers,
        Series::CommitP99,
        Series::MemoryBytes,
        Series::CpuPercent,
    ];

    /// Those that are recorded for single queues, in the order of their rows.
    pub const OF_QUEUES: [Series; 5] =
        [Series::Submitted, Series::Completed, Series::Failed, Series::Pending, Series::Running];

    pub fn as_str(self) -> &'static str {
        match self {
            Series::Submitted => "submitted",
            Series::Started => "started",
            Series::Completed => "completed",
            Series::Failed => "failed",
            Series::Retried => "retried",
            Series::DeadLettered => "dead_lettered",
            Series::Cancelled => "cancelled",
            Series::WaitP50 => "wait_p50",
            Series::WaitP95 => "wait_p95",
            Series::WaitP99 => "wait_p99",
            Series::RunP50 => "run_p50",
            Series::RunP95 => "run_p95",
            Series::RunP99 => "run_p99",
            Series::Pending => "pending",
            Series::Running => "running",
            Series::Scheduled => "scheduled",
            Series::Retrying => "retrying",
            Series::Blocked => "blocked",
            Series::DeadLetter => "dead_letter",
            Series::OldestPending => "oldest_pending",
            Series::Workers => "workers",
            Series::CommitP99 => "commit_p99",
            Series::MemoryBytes => "memory_bytes",
            Series::CpuPercent => "cpu_percent",
        }
    }

    pub fn parse(word: &str) -> Option<Series> {
        Series::ALL.into_iter().find(|series| series.as_str() == word)
    }

    /// Whether several rows are one by their mean; of the others the largest figure counts, so that no peak is lost.
    pub(super) fn is_mean(self) -> bool {
        matches!(
            self,
            Series::Submitted
                | Series::Started
                | Series::Completed
                | Series::Failed
                | Series::Retried
                | Series::DeadLettered
                | Series::Cancelled
                | Series::CpuPercent
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_stands_at_its_number_and_is_found_by_its_name() {
        for (at, series) in Series::ALL.into_iter().enumerate() {
            assert_eq!((series as usize, Series::parse(series.as_str())), (at, Some(series)));
        }
        assert_eq!(Series::parse("submits"), None);
    }
}
