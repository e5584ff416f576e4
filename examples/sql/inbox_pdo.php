<?php
// An order and its job in one transaction on MariaDB, with PHP's PDO.
$dsn = 'mysql:host=' . getenv('DB_HOST') . ';port=' . getenv('DB_PORT') . ';dbname=' . getenv('DB_DATABASE') . ';charset=utf8mb4';
$db = new PDO($dsn, getenv('DB_USERNAME'), getenv('DB_PASSWORD'), [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);

// Adds an order, and the job that confirms it.
function order(PDO $db, string $item): void
{
    $db->prepare('insert into orders (item) values (?)')->execute([$item]);
    $payload = json_encode(['order' => (int) $db->lastInsertId(), 'item' => $item]);
    $db->prepare("insert into dibs_inbox (queue, kind, payload) values ('mail', 'confirm', ?)")->execute([$payload]);
}

$db->beginTransaction();
order($db, 'a lamp');
$db->commit();

$db->beginTransaction();
order($db, 'a chair');
$db->rollBack(); // neither the order nor the job exists

try {
    $db->query("insert into dibs_inbox (queue, priority) values ('mail', -1)");
    exit("a wrong priority was taken\n");
} catch (PDOException $e) {
    [, $code, $message] = $e->errorInfo;
    echo $code, ' | ', $message, "\n";
}
