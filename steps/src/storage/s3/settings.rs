//! Where the bucket is, and how patiently it is asked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use serde::Deserialize;

use crate::outcome::{Failure, Result};

/// `kind = "s3"` of `[storage.NAME]`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Settings {
    pub endpoint: String,
    pub bucket: String,
    /// Keys begin with it.
    #[serde(default)]
    pub prefix: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    /// Plain HTTP, for a server on a trusted network.
    #[serde(default)]
    pub allow_http: bool,
    /// How long a request may take until its answer begins, and then between two pieces of it.
    #[serde(default = "two_minutes", with = "humantime_serde")]
    pub timeout: Duration,
    /// How often a request is tried, and the first pause between; each is up to twice the one before.
    #[serde(default = "five")]
    pub tries: u32,
    #[serde(default = "a_second", with = "humantime_serde")]
    pub pause: Duration,
}

fn two_minutes() -> Duration {
    Duration::from_mins(2)
}

fn five() -> u32 {
    5
}

fn a_second() -> Duration {
    Duration::from_secs(1)
}

impl S3Settings {
    /// With every default. The keys are the access key and the secret one.
    pub fn new(endpoint: &str, region: &str, bucket: &str, keys: (&str, &str)) -> Self {
        Self {
            endpoint: endpoint.into(),
            bucket: bucket.into(),
            prefix: String::new(),
            region: region.into(),
            access_key: keys.0.into(),
            secret_key: keys.1.into(),
            allow_http: false,
            timeout: two_minutes(),
            tries: five(),
            pause: a_second(),
        }
    }

    /// A client of the bucket, which is in the path of its addresses. Nothing is asked of the server yet.
    pub fn open(&self) -> Result<Arc<dyn ObjectStore>> {
        let wrong = |why: String| Failure::fail(format!("the bucket `{}`: {why}", self.bucket));
        if !self.allow_http && !self.endpoint.starts_with("https://") {
            return Err(wrong(format!(
                "`{}` is not https; write allow_http = true if the network is trusted",
                self.endpoint
            )));
        }
        let longest = Duration::from_mins(1);
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: self.pause,
                max_backoff: longest.max(self.pause),
                base: 2.0,
            },
            max_retries: self.tries.saturating_sub(1) as usize,
            // The count is what bounds it.
            retry_timeout: Duration::from_hours(1),
        };
        let client = ClientOptions::new()
            // Large content takes as long as it takes, if only it goes on.
            .with_timeout_disabled()
            .with_read_timeout(self.timeout)
            .with_connect_timeout(Duration::from_secs(30).min(self.timeout))
            .with_allow_http(self.allow_http);
        let store = AmazonS3Builder::new()
            .with_client_options(client)
            .with_retry(retry)
            .with_endpoint(&self.endpoint)
            .with_bucket_name(&self.bucket)
            .with_region(&self.region)
            .with_access_key_id(&self.access_key)
            .with_secret_access_key(&self.secret_key)
            .with_allow_http(self.allow_http)
            .with_virtual_hosted_style_request(false)
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Arc::new(store))
    }
}

impl fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The keys stay out of logs.
        f.debug_struct("S3Settings")
            .field("endpoint", &self.endpoint)
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
