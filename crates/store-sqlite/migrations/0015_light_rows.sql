-- A row of the log costs less. For each row that is inserted SQLite builds a table of the members of a
-- list that has more than two, and throws it away: that was a third of what an insert took. Equalities
-- are tested where they stand. They say the same, so what is there obeys them.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
    SET sql = replace(replace(sql,
        'operation IN (''INSERT'', ''UPDATE'', ''DELETE'', ''TRUNCATE'')',
        'operation = ''INSERT'' OR operation = ''UPDATE'' OR operation = ''DELETE'''
            || ' OR operation = ''TRUNCATE'''),
        'control IN (''create'', ''close'', ''delete'', ''expire'', ''subscription'', ''schema'', ''mark'')',
        'control = ''create'' OR control = ''close'' OR control = ''delete'' OR control = ''expire'''
            || ' OR control = ''subscription'' OR control = ''schema'' OR control = ''mark''')
    WHERE type = 'table' AND name = 'log';
PRAGMA writable_schema = RESET;
