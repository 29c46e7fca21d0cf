-- Which database the log's epoch belongs to. After a failover, or in a copy, the log may lack its newest events, and
-- their offsets would be given again to others. So whoever gives offsets compares, under the offset lock, the server's
-- timeline (which rises when a standby is promoted) and its system identifier (which differs between clusters that were
-- not copied from one another) with what is noted here. Null until a node that may ask has noted it.
--
-- `halted` says why nobody gives offsets: a node saw the log end before an event that it had seen. `tidewire restore`
-- takes it away.
ALTER TABLE tidewire.log_epoch
    ADD COLUMN timeline          text,
    ADD COLUMN system_identifier bigint,
    ADD COLUMN halted            text;
