-- How far each group of consumers has got in each of its partitions. Topic 1 is the whole log. (What
-- else PostgreSQL has in this step is for programs that read its log by SQL of their own.)

CREATE TABLE tidewire_consumer_offsets (
    group_id     TEXT    NOT NULL,
    topic_id     INTEGER NOT NULL,
    partition_id INTEGER NOT NULL,
    -- The first offset that is not consumed yet.
    next_offset  INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (group_id, topic_id, partition_id),
    CONSTRAINT next_offset_check CHECK (next_offset > 0),
    CONSTRAINT partition_id_check CHECK (partition_id >= 0)
) WITHOUT ROWID;
