-- Orders with an index for each form that queries have, as someone who runs them again would want them.
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint NOT NULL, region text COLLATE "C" NOT NULL,
  status text NOT NULL, total numeric NOT NULL, note text NOT NULL);
INSERT INTO orders SELECT n, n, (ARRAY['north', 'south', 'east', 'west'])[1 + n % 4], 'paid', n * 10 + 2,
  'leave it at the door' FROM generate_series(1, {rows}) n;
CREATE INDEX ON orders (customer_id);
CREATE INDEX ON orders (total);
ANALYZE orders;
