//! What stands in the way of capture from the write-ahead log.

use deadpool_postgres::ClientWrapper;

use super::error::broken;
use super::query::{query_one, sql};
use tidewire_store::error::StoreError;

/// What stands in the way, each with what to do about it. Nothing does if there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// What keeps changes from being read there.
    pub blocking: Vec<String>,
    /// What is not as it should be.
    pub advice: Vec<String>,
}

/// Looks at the server and the role.
pub async fn obstacles(client: &ClientWrapper) -> Result<Obstacles, StoreError> {
    let read = async {
        let row = query_one(client, sql!("wal_obstacles"), &[]).await?;
        Ok(Facts {
            wal_level: row.try_get(0)?,
            version: row.try_get(1)?,
            may_replicate: row.try_get(2)?,
            role: row.try_get(3)?,
            slots_used: row.try_get(4)?,
            slots_max: row.try_get(5)?,
            senders_used: row.try_get(6)?,
            senders_max: row.try_get(7)?,
            may_publish: row.try_get(8)?,
            database: row.try_get(9)?,
            unlogged: row.try_get(10)?,
            not_owned: row.try_get(11)?,
            keep_size: row.try_get(12)?,
            virtual_columns: row.try_get(13)?,
        })
    };
    let facts: Facts = read.await.map_err(broken("look what capture from the log needs"))?;
    Ok(facts.obstacles())
}

struct Facts {
    wal_level: String,
    version: i32,
    may_replicate: bool,
    role: String,
    slots_used: i64,
    slots_max: i64,
    senders_used: i64,
    senders_max: i64,
    may_publish: bool,
    database: String,
    unlogged: String,
    not_owned: String,
    keep_size: String,
    virtual_columns: String,
}

impl Facts {
    fn obstacles(&self) -> Obstacles {
        let Facts { role, database, .. } = self;
        let mut blocking = Vec::new();
        if self.version < 140_000 {
            blocking.push("the server is older than PostgreSQL 14: upgrade it".to_owned());
        }
        if self.wal_level != "logical" {
            blocking.push(format!(
                "wal_level is {}: run ALTER SYSTEM SET wal_level = logical, and restart the server",
                self.wal_level
            ));
        }
        if !self.may_replicate {
            blocking.push(format!(
                "the role {role} may not replicate: run ALTER ROLE \"{role}\" REPLICATION (on \
                 managed servers the provider's own grant, such as rds_replication)"
            ));
        }
        if self.slots_used >= self.slots_max {
            blocking.push(format!(
                "all {} replication slots are in use: raise max_replication_slots and restart the \
                 server, or drop one that nobody needs (pg_replication_slots)",
                self.slots_max
            ));
        }
        if self.senders_used >= self.senders_max {
            blocking.push(format!(
                "all {} WAL senders are in use: raise max_wal_senders and restart the server",
                self.senders_max
            ));
        }
        if !self.may_publish {
            blocking.push(format!(
                "the role {role} may not make publications: run GRANT CREATE ON DATABASE \
                 \"{database}\" TO \"{role}\""
            ));
        }
        if !self.unlogged.is_empty() {
            blocking.push(format!(
                "unlogged tables are watched, whose changes are not in the write-ahead log: run \
                 ALTER TABLE … SET LOGGED, or unwatch them: {}",
                self.unlogged
            ));
        }
        if !self.not_owned.is_empty() {
            blocking.push(format!(
                "the role {role} does not own these watched tables, and so cannot set their replica \
                 identity or publish them: {}; make it a member of their owners",
                self.not_owned
            ));
        }
        if !self.virtual_columns.is_empty() {
            blocking.push(format!(
                "watched tables have virtual generated columns, which PostgreSQL cannot publish: make \
                 them STORED, or unwatch them: {}",
                self.virtual_columns
            ));
        }
        let mut advice = Vec::new();
        if self.keep_size == "-1" {
            advice.push(
                "max_slot_wal_keep_size is unlimited: while no node runs, the slot keeps the \
                 write-ahead log without bound. Set it to what the disk can spare, such as ALTER \
                 SYSTEM SET max_slot_wal_keep_size = '10GB'; then SELECT pg_reload_conf()"
                    .to_owned(),
            );
        }
        Obstacles { blocking, advice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine() -> Facts {
        Facts {
            wal_level: "logical".to_owned(),
            version: 150_018,
            may_replicate: true,
            role: "app".to_owned(),
            slots_used: 0,
            slots_max: 10,
            senders_used: 0,
            senders_max: 10,
            may_publish: true,
            database: "shop".to_owned(),
            unlogged: String::new(),
            not_owned: String::new(),
            keep_size: "10GB".to_owned(),
            virtual_columns: String::new(),
        }
    }

    #[test]
    fn nothing_stands_in_the_way_of_a_server_that_has_it_all() {
        assert_eq!(fine().obstacles(), Obstacles::default());
    }

    #[test]
    fn each_obstacle_says_what_to_do_about_it() {
        let cases: [(Facts, &str); 9] = [
            (Facts { version: 130_000, ..fine() }, "upgrade it"),
            (Facts { wal_level: "replica".to_owned(), ..fine() }, "SET wal_level = logical"),
            (Facts { may_replicate: false, ..fine() }, "ALTER ROLE \"app\" REPLICATION"),
            (Facts { slots_used: 10, ..fine() }, "raise max_replication_slots"),
            (Facts { senders_used: 10, ..fine() }, "raise max_wal_senders"),
            (Facts { may_publish: false, ..fine() }, "GRANT CREATE ON DATABASE \"shop\""),
            (Facts { unlogged: "quick".to_owned(), ..fine() }, "SET LOGGED"),
            (Facts { not_owned: "orders".to_owned(), ..fine() }, "a member of their owners"),
            (Facts { virtual_columns: "sums".to_owned(), ..fine() }, "make them STORED"),
        ];
        for (facts, advice) in cases {
            let Obstacles { blocking, .. } = facts.obstacles();
            assert!(matches!(&blocking[..], [one] if one.contains(advice)), "{blocking:?}");
        }
        let unlimited = Facts { keep_size: "-1".to_owned(), ..fine() }.obstacles();
        assert!(unlimited.blocking.is_empty() && unlimited.advice.len() == 1);
    }
}
