//! A consumer group over HTTP, and a table of jobs that it works off.

use reqwest::Method;
use serde_json::{Value, json};

use crate::http::{Answer, Http};

/// A group of workers on one server. The table `jobs` has a tenant, a user and a note; `ledger` is where
/// workers write what they have done. Nothing there is unique.
#[derive(Debug, Clone)]
pub struct Jobs {
    pub http: Http,
    group: String,
}

impl Jobs {
    /// Makes the tables, and the group.
    pub async fn start(http: &Http, group: &str, wish: &Value) -> Jobs {
        let jobs = Jobs { http: http.clone(), group: group.to_owned() };
        jobs.sql(
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY, host TEXT, who TEXT, note TEXT); \
             CREATE TABLE ledger (job BIGINT, place TEXT)",
        )
        .await;
        let watch = json!({ "table": "jobs", "host_column": "host", "user_column": "who" });
        let answer = http.json(Method::POST, "/v1/watch", &watch).await;
        assert_eq!(answer.status, 200, "watch the jobs: {}", answer.text());
        jobs.make(wish).await;
        jobs
    }

    /// A group that works on something else than jobs. It is not made yet.
    pub fn of(http: &Http, group: &str) -> Jobs {
        Jobs { http: http.clone(), group: group.to_owned() }
    }

    /// Makes the group.
    pub async fn make(&self, wish: &Value) {
        let answer = self.http.json(Method::PUT, &self.path(""), wish).await;
        assert_eq!(answer.status, 201, "make a group: {}", answer.text());
    }

    /// The same group, at another server.
    #[must_use]
    pub fn at(&self, http: &Http) -> Jobs {
        Jobs { http: http.clone(), group: self.group.clone() }
    }

    fn path(&self, step: &str) -> String {
        let group = &self.group;
        if step.is_empty() {
            format!("/v1/groups/{group}")
        } else {
            format!("/v1/groups/{group}/{step}")
        }
    }

    /// Runs SQL.
    pub async fn sql(&self, sql: &str) -> Value {
        let answer = self.http.json(Method::POST, "/v1/sql", &json!({ "sql": sql })).await;
        assert_eq!(answer.status, 200, "{sql}: {}", answer.text());
        answer.json()
    }

    /// Adds jobs, in one transaction: number, tenant, user.
    pub async fn add(&self, jobs: &[(i64, &str, &str)]) {
        let rows: Vec<String> =
            jobs.iter().map(|(id, host, who)| format!("({id}, '{host}', '{who}', '')")).collect();
        self.sql(&format!("INSERT INTO jobs VALUES {}", rows.join(", "))).await;
    }

    /// Asks something of the group.
    pub async fn post(&self, step: &str, body: &Value) -> Answer {
        self.http.json(Method::POST, &self.path(step), body).await
    }

    /// The same, and the server may be away.
    pub async fn try_post(&self, step: &str, body: &Value) -> reqwest::Result<Answer> {
        let request = self.http.request(Method::POST, &self.path(step));
        let request = request.header("content-type", "application/json").body(body.to_string());
        Answer::try_of(request).await
    }

    /// Asks something that must succeed.
    pub async fn done(&self, step: &str, body: &Value) -> Value {
        let answer = self.post(step, body).await;
        assert_eq!(answer.status, 200, "{step} {body}: {}", answer.text());
        answer.json()
    }

    /// Claims a batch, which must come.
    pub async fn claim(&self, member: &str) -> Value {
        self.done("claim", &json!({ "member": member })).await
    }

    /// Claims a batch if there is one.
    pub async fn try_claim(&self, body: &Value) -> Option<Value> {
        let answer = self.post("claim", body).await;
        match answer.status {
            204 => None,
            _ => {
                assert_eq!(answer.status, 200, "claim {body}: {}", answer.text());
                Some(answer.json())
            }
        }
    }

    /// Says that a batch is done.
    pub async fn ack(&self, batch: &Value) -> Value {
        self.done("ack", &json!({ "token": batch["token"] })).await
    }

    /// Says that a key of a batch failed.
    pub async fn fail(&self, batch: &Value, user: &str, verdict: &str) -> Value {
        let key = keys(batch).into_iter().find(|key| key["user_id"] == user);
        let key = key.unwrap_or_else(|| panic!("no {user} in {batch}"));
        let failed = json!({
            "host_id": key["host_id"], "user_id": user, "error": "it broke", "verdict": verdict,
        });
        let body = json!({ "token": batch["token"], "failed": [failed], "retry_in_ms": 0 });
        self.done("nack", &body).await
    }

    /// The group as it is.
    pub async fn look(&self) -> Value {
        let answer = self.http.get(&self.path("")).await;
        assert_eq!(answer.status, 200, "look at a group: {}", answer.text());
        answer.json()
    }

    /// Its letters.
    pub async fn letters(&self, query: &str) -> Vec<Value> {
        let answer = self.http.get(&self.path(&format!("dead?{query}"))).await;
        assert_eq!(answer.status, 200, "letters: {}", answer.text());
        answer.json()["letters"].as_array().expect("letters").clone()
    }
}

/// The keys of a batch, with their events.
pub fn keys(batch: &Value) -> Vec<Value> {
    batch["groups"].as_array().unwrap_or_else(|| panic!("no groups in {batch}")).clone()
}

/// The numbers of the jobs in a batch, of one user.
pub fn jobs_of(batch: &Value, user: &str) -> Vec<i64> {
    let keys = keys(batch).into_iter().filter(|key| key["user_id"] == user);
    keys.flat_map(|key| key["events"].as_array().expect("events").clone())
        .map(|e| job(&e))
        .collect()
}

/// The events of a batch.
pub fn events(batch: &Value) -> Vec<Value> {
    let keys = keys(batch).into_iter();
    keys.flat_map(|key| key["events"].as_array().expect("events").clone()).collect()
}

/// The number of an event's job.
pub fn job(event: &Value) -> i64 {
    event["after_data"]["id"].as_i64().unwrap_or_else(|| panic!("no job in {event}"))
}
